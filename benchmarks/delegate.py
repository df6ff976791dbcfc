"""What the ExecuTorch delegate costs beyond a bare ONNX Runtime session with io_binding.

    python benchmarks/delegate.py time MODEL.pte --shape 4 8 --dtype float32 [--calls 1000]
    python benchmarks/delegate.py memory MODEL.pte

``time`` calls both on the same inputs with the same threads, in turns of 100 calls, and prints medians and quartiles in
microseconds, with a program of one `add` for what a call of ExecuTorch costs by itself, and that and a bare session one
after the other: each has to fetch again what the other drove out of the processor's caches. ``memory`` prints the
anonymous memory (RssAnon after malloc_trim, MB) that each way to load adds, each in a process of its own: a bare
session, and the program (loaded, and once more).
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import mmap
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import onnxruntime
import torch

import trt_runtime
from trt_runtime import _native
from trt_runtime.delegate.pte import read_delegates, read_named_data

_ONNX_TYPES = {"float32": 1, "int64": 7}


def model_in(path: Path) -> memoryview:
    """The ONNX model in the one delegate of a .pte, mapped."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    (delegate,) = read_delegates(data)
    payload = data[delegate.offset : delegate.offset + delegate.size]
    fields, inline = _native.read_payload(payload)
    if inline is None:
        offset, size = read_named_data(data)[fields["plan_key"]]
        plan = data[offset : offset + size]
    else:
        plan = payload[inline:]
    return plan[_native.share_plan(plan).payload_offset :]


def session_options() -> onnxruntime.SessionOptions:
    """The options that trt_runtime uses."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = torch.get_num_threads()
    options.inter_op_num_threads = 1
    return options


def bare_session(model: bytes) -> Any:
    """A session that keeps no copy of the model."""
    session = onnxruntime.InferenceSession(
        model, session_options(), providers=["CPUExecutionProvider"], enable_fallback=0
    )
    vars(session).pop("_model_bytes", None)
    return session


def measure(work: Callable[[], object], calls: int) -> list[float]:
    """Return the seconds of each call."""
    clock, found = time.perf_counter, []
    for _ in range(calls):
        start = clock()
        work()
        found.append(clock() - start)
    return found


def add_method(inputs: Sequence[torch.Tensor]) -> Any:
    """A method of ExecuTorch's own that adds its first input to itself."""
    from executorch.exir import to_edge
    from executorch.runtime import Runtime

    class Add(torch.nn.Module):
        def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
            return inputs[0] + inputs[0]

    program = to_edge(torch.export.export(Add(), tuple(inputs))).to_executorch()
    return Runtime.get().load_program(bytes(program.buffer)).load_method("forward")


def time_calls(path: Path, inputs: Sequence[torch.Tensor], calls: int) -> dict[str, list[float]]:
    """Seconds of each call: bare, ExecuTorch's own method object, our Program, and ExecuTorch's add."""
    from executorch.runtime import Runtime

    program = trt_runtime.load(path)
    (output,) = program.run(inputs)
    stock = Runtime.get().load_program(path).load_method("forward")
    session = bare_session(bytes(model_in(path)))
    binding = session.io_binding()
    for node, tensor in zip(session.get_inputs(), inputs, strict=True):
        element = _ONNX_TYPES[str(tensor.dtype).removeprefix("torch.")]
        binding.bind_input(node.name, "cpu", 0, element, tuple(tensor.shape), tensor.data_ptr())
    result = torch.empty_like(output)
    binding.bind_output(
        session.get_outputs()[0].name, "cpu", 0, 1, tuple(result.shape), result.data_ptr()
    )
    add = add_method(inputs)
    ways: dict[str, Callable[[], object]] = {
        "bare session": lambda: session.run_with_iobinding(binding),
        "delegate, in ExecuTorch's method": lambda: stock._method(inputs, clone_outputs=False),
        "delegate, Program.run": lambda: program.run(inputs),
        "ExecuTorch's method of one add": lambda: add._method(inputs, clone_outputs=False),
        "one add, then a bare session": lambda: (
            add._method(inputs, clone_outputs=False),
            session.run_with_iobinding(binding),
        ),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    turn = min(100, calls)
    gc.disable()
    for work in ways.values():
        measure(work, turn)
    for _ in range(-(-calls // turn)):
        for name, work in ways.items():
            found[name] += measure(work, turn)
    gc.enable()
    torch.testing.assert_close(result, program.run(inputs)[0], rtol=1e-5, atol=1e-5)
    return found


def anonymous_memory() -> float:
    """RssAnon in MB after the allocator has given back what it can."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    status = Path("/proc/self/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def memory_of(way: str, path: Path) -> dict[str, float]:
    """What one way to load adds; run in a process of its own."""
    trt_runtime.register_delegate()
    # Whatever the libraries allocate once is there before the measurement.
    from executorch.runtime import Runtime
    from onnx import TensorProto, helper

    tensors = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in "xy"]
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["y"])], "g", tensors[:1], tensors[1:]
    )
    tiny = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    warm = bare_session(tiny.SerializeToString())
    before = anonymous_memory()
    if way == "program":
        methods = [Runtime.get().load_program(path).load_method("forward")]
        first = anonymous_memory()
        methods.append(Runtime.get().load_program(path).load_method("forward"))
        return {"program": first - before, "the same again": anonymous_memory() - first}
    kept = bare_session(bytes(model_in(path)))
    added = anonymous_memory() - before
    assert kept
    assert warm
    return {way: added}


MEMORY_WAYS = ("bare session", "program")


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["time", "memory", "memory-of"])
    parser.add_argument("program", type=Path)
    parser.add_argument("--way")
    parser.add_argument("--shape", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--dtype", choices=sorted(_ONNX_TYPES), default="float32")
    parser.add_argument("--inputs", type=int, default=1, help="inputs of that shape")
    parser.add_argument("--calls", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.what == "memory-of":
        print(json.dumps(memory_of(arguments.way, arguments.program)))
        return
    if arguments.what == "memory":
        for way in MEMORY_WAYS:
            command = [sys.executable, __file__, "memory-of", str(arguments.program), "--way", way]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            for name, added in json.loads(said.splitlines()[-1]).items():
                print(f"{name}: {added:.1f} MB")
        return
    torch.manual_seed(0)
    dtype = getattr(torch, arguments.dtype)
    inputs = [torch.ones(arguments.shape, dtype=dtype) for _ in range(arguments.inputs)]
    found = time_calls(arguments.program, inputs, arguments.calls)
    (bare,) = (statistics.median(v) for name, v in found.items() if name == "bare session")
    print(f"{arguments.calls} calls, {torch.get_num_threads()} threads, microseconds")
    for name, seconds in found.items():
        low, middle, high = (1e6 * q for q in statistics.quantiles(seconds, n=4))
        print(
            f"{name}: {middle:.2f} ({low:.2f} to {high:.2f}), beyond bare {middle - 1e6 * bare:.2f}"
        )


if __name__ == "__main__":
    main()
