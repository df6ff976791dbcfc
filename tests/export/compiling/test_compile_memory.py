"""`compile` takes little memory beyond the program's own: weights are read where they lie, and plans lie in files."""

import json
import subprocess
import sys

import pytest

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
