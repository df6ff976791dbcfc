"""Compiles and loads the double of torch-tensorrt's engine, and makes programs that call it."""

import ctypes
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils import cpp_extension

SOURCE = Path(__file__).with_name("double.cpp")
LIBRARY = "libtorchtrt.so"  # as torch-tensorrt calls it
DEVICE = "0%8%6%0%NVIDIA A10"
# Pickle protocol 4 in base64, with a call of os.system in it: whoever unpickles it, runs it.
PICKLE = "gASVIgAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAdleGl0IDMzlIWUUpQu"


def compile_double(folder: Path) -> Path:
    """Compile the double; takes some ten seconds."""
    library = folder / LIBRARY
    command = [
        "g++",
        "-std=c++20",
        "-O0",
        "-g0",
        "-shared",
        "-fPIC",
        str(SOURCE),
        "-o",
        str(library),
    ]
    command += [f"-isystem{path}" for path in cpp_extension.include_paths()]
    for path in cpp_extension.library_paths():
        command += [f"-L{path}", f"-Wl,-rpath,{path}"]
    subprocess.run([*command, "-ltorch_cpu", "-lc10"], check=True, capture_output=True, text=True)
    return library


class FakeEngine:
    """What stands for an engine that reports no tracing mode."""

    def __init__(self, state: list[str]) -> None:
        self.serialized = state

    @classmethod
    def __obj_unflatten__(cls, flattened: tuple[tuple[str, Any], ...]) -> "FakeEngine":
        return cls(dict(flattened)["serialized"])


def load_double(library: Path) -> Callable[[], int]:
    """Load it, tell torch of it; returns what counts its serializations. The environment says which version it is."""
    torch.ops.load_library(library)
    if os.environ.get("FOREIGN_ACCESSORS") != "1":
        torch._library.register_fake_class("tensorrt::Engine", FakeEngine)  # type: ignore[arg-type]
    torch.library.register_fake("tensorrt::execute_engine", _fake)
    count: Callable[[], int] = ctypes.CDLL(str(library)).foreign_serializations
    return count


def _fake(inputs: Sequence[torch.Tensor], engine: Any) -> list[torch.Tensor]:
    """float32 [n, 8], ... -> float32 [n, 4], and for a second output int64 [2 * n + 1]."""
    fake = getattr(engine, "wrapped_obj", None)
    state = fake.serialized if fake else engine.serialize_metadata_only()
    first = inputs[0]
    outputs = [
        first.new_empty(first.shape[0], 4),
        first.new_empty(2 * first.shape[0] + 1, dtype=torch.int64),
    ]
    return outputs[: len(state[5].split("%"))]


def plan(size: int = 200) -> bytes:
    """Bytes with the header of a TensorRT 10.13 plan."""
    header = bytearray(32)
    header[:4] = b"ftrt"
    header[24:28] = bytes([10, 13, 3, 9])
    return bytes(header) + bytes(i * 11 % 256 for i in range(size - len(header)))


def record(abi: int = 10, outputs: str = "output_0", aliases: str = "") -> list[Any]:
    """A record of an ABI, as the class takes it: with the plan's own bytes."""
    fields: list[Any] = [
        str(abi), "_run_on_acc_0", DEVICE, plan(), "x", outputs, "1",
        PICKLE, "linux_x86_64", "0", "0", "0", aliases,
    ]  # fmt: skip
    return fields[: {5: 7, 6: 9, 7: 10, 8: 11, 9: 12, 10: 13}[abi]]


def engine(**changes: Any) -> torch.ScriptObject:
    made: torch.ScriptObject = torch.classes.tensorrt.Engine(record(**changes))
    return made


def execute(inputs: Sequence[torch.Tensor], engine: torch.ScriptObject) -> list[torch.Tensor]:
    results: list[torch.Tensor] = torch.ops.tensorrt.execute_engine(inputs, engine)
    return results
