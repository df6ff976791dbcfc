"""`compile` takes little memory beyond the program's own: weights are read where they lie, and plans lie in files."""

import json
import mmap
import subprocess
import sys

import numpy as np
import pytest
import torch

from trt_export.compiling import torch_onnx
from trt_export.compiling.decomposition import decompose

_MEGABYTE = 2**20
_WEIGHT = 64 * _MEGABYTE

_SCRIPT = """
import gc, json, sys, threading
import torch
import trt_export

class Product(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = torch.nn.Linear(size, size, bias=False)
    def forward(self, x):
        return self.linear(x)

def exported(size):
    return torch.export.export(Product(size).requires_grad_(False), (torch.ones(2, size),))

def anonymous():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("RssAnon"))

options = json.loads(sys.argv[1])
torch.set_num_threads(1)
trt_export.compile(exported(8), **options)
program = exported(4096)
gc.collect()
before = most = anonymous()
done = threading.Event()
def watch():
    global most
    while not done.wait(0.001):
        most = max(most, anonymous())
watcher = threading.Thread(target=watch)
watcher.start()
compiled = trt_export.compile(program, **options)
done.set()
watcher.join()
extra = max(most, anonymous()) - before
x = torch.ones(2, 4096)
assert torch.allclose(compiled.module()(x), program.module()(x), atol=1e-4)
print(json.dumps(extra))
"""


@pytest.mark.parametrize("builder", ["onnxruntime", "tensorrt-rtx"])
@pytest.mark.parametrize("verify", [False, True])
def test_a_weight_is_not_copied(builder: str, verify: bool) -> None:
    assert _extra_memory({"builder": builder, "verify": verify}) < _WEIGHT / 2


def _extra_memory(options: dict[str, object]) -> int:
    """Return the largest number of bytes of anonymous memory that compiling a program of one weight adds."""
    script = _SCRIPT
    if options["builder"] != "onnxruntime":  # needs a GPU to run
        script = script.replace("assert torch.allclose", "torch.Tensor #")
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    extra: int = json.loads(done.stdout)
    return extra


def test_weights_that_optimizations_make_lie_in_a_file() -> None:
    """A convolution merged with its normalization has weights of its own, which are in the program nowhere."""
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Conv2d(64, 128, 3), torch.nn.BatchNorm2d(128)).eval()
    module.requires_grad_(False)
    program = torch.export.export(module, (torch.ones(1, 64, 4, 4),))
    model = torch_onnx.translate(decompose(program))
    assert [node.op_type for node in model.graph] == ["Conv"]
    (weight,) = (
        value.const_value.numpy()
        for value in model.graph.initializers.values()
        if value.const_value is not None and value.const_value.nbytes > 1 << 18
    )
    while isinstance(weight, np.ndarray):
        weight = weight.base
    assert isinstance(weight.obj, mmap.mmap)
