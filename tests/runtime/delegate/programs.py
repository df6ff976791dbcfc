"""Small programs with one engine, their payloads, and engines as the native delegate opens them."""

from __future__ import annotations

import copy
import functools
import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

import executorch_noise  # noqa: F401 - imports ExecuTorch without its warnings
import trt_export
import trt_runtime
from trt_runtime import _native
from trt_runtime.delegate.engine import DelegateEngine, RawTensor

from ..building import Node, binding, engine_of, model, plan_of, record_of

# For the beginning of a script: ExecuTorch's runtime takes one decorator from its compiler, whose import is
# all but the whole time that such a script would take.
WITHOUT_COMPILER = """
import sys, types, warnings
warnings.simplefilter("ignore")
compiler = sys.modules["executorch.exir"] = types.ModuleType("executorch.exir")
compiler._warnings = sys.modules["executorch.exir._warnings"] = types.SimpleNamespace(
    ExperimentalWarning=Warning,
    experimental=lambda *args: lambda thing: thing,
    deprecated=lambda *args: lambda thing: thing,
)
"""

HEADER = struct.Struct("<4sIIIQ8s")
REFERENCE = struct.Struct("<4sHHIIQ32s8x")
# c10/core/ScalarType.h
NUMBERS: Mapping[torch.dtype, int] = {
    torch.uint8: 0,
    torch.int64: 4,
    torch.float16: 5,
    torch.float32: 6,
    torch.float64: 7,
}


class Runs(torch.nn.Module):
    """Nothing but an engine call, unless `forward` is given."""

    def __init__(
        self,
        engine: trt_runtime.Engine,
        forward: Callable[..., Any] | None = None,
        **buffers: Tensor,
    ) -> None:
        super().__init__()
        self.engine = engine.script_object
        self._forward = forward
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def call(self, *inputs: Tensor) -> list[Tensor]:
        return list(torch.ops.trt_runtime.execute_engine(list(inputs), self.engine))

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(*inputs) if self._forward is None else self._forward(self, *inputs)


def scaling_engine(factor: float = 2.0, **record: Any) -> trt_runtime.Engine:
    """float32 [n of 1 to 64, 8] -> factor * x; a plan of its own for each factor."""
    constant = {"value_float": float(factor)}
    return engine_of(
        [("Constant", [], ["factor"], constant), ("Mul", ["in_0", "factor"], ["out_0"])],
        [binding("in_0", "float32", ["i0d0", 8], {0: (1, 64)})],
        [binding("out_0", "float32", ["i0d0", 8])],
        **record,
    )


def scaling_program(factor: float = 2.0, **record: Any) -> ExportedProgram:
    return export(Runs(scaling_engine(factor, **record)), torch.ones(2, 8))


def export(module: torch.nn.Module, *inputs: Tensor, largest: int = 64) -> ExportedProgram:
    """Export with the first dimension of every input dynamic, all the same."""
    batch = Dim("batch", min=1, max=largest)
    return torch.export.export(module, inputs, dynamic_shapes=(({0: batch},) * len(inputs),))


@functools.cache
def _scaling_bytes(factor: float, format: Any) -> bytes:
    manager = trt_export.to_edge(scaling_program(factor), format=format)
    return bytes(manager.to_executorch().buffer)


def scaling_pte(path: Path, factor: float = 2.0, format: Any = "named-data") -> Path:
    """A file with nothing but the engine; lowered once for each factor and format."""
    path.write_bytes(_scaling_bytes(factor, format))
    return path


def without_limits(path: Path) -> Path:
    """Have a `.pte` say no more what sizes its inputs may have, as those of older exporters: engines look alone."""
    path.write_bytes(path.read_bytes().replace(b"input_sizes", b"input-sizes"))
    return path


def payload_of(
    plan: bytes,
    record: Mapping[str, Any],
    *,
    order: Sequence[str] | None = None,
    magic: bytes | None = None,
    **fields: Any,
) -> bytes:
    """A payload put together by hand; `order` is that of all bindings, `fields` replace those of the JSON."""
    engine = trt_runtime.Engine.from_plan(plan, record)
    info = engine.info
    bindings = {
        bound.name: {
            "name": bound.name,
            "dtype": bound.dtype,
            "shape": [dim if isinstance(dim, int) else -1 for dim in bound.shape],
            "is_input": is_input,
        }
        for is_input, side in ((True, info.inputs), (False, info.outputs))
        for bound in side
    }
    data: dict[str, Any] = {
        "io_bindings": [bindings[name] for name in (order or bindings)],
        "aliased_io": copy.deepcopy(record.get("aliased_io", [])),
        "hardware_compatible": False,
        "device_id": -1,
        "serialized_metadata": engine.serialize()[7],
        "target_platform": "linux_x86_64",
        **fields,
    }
    return frame(
        json.dumps(data).encode(), plan, magic or (b"TR02" if data["aliased_io"] else b"TR01")
    )


def reference_of(
    plan: bytes,
    record: Mapping[str, Any],
    *,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    **fields: Any,
) -> tuple[bytes, dict[str, bytes]]:
    """A payload that refers to its plan, and the named data; `fields` replace those of its record."""
    info = trt_runtime.Engine.from_plan(plan, record).info
    data = {
        "record": {**info.to_mapping(), **fields},
        "inputs": [b.name for b in info.inputs] if inputs is None else inputs,
        "outputs": [b.name for b in info.outputs] if outputs is None else outputs,
    }
    digest = hashlib.sha256(plan).digest()
    payload = refer(json.dumps(data).encode(), plan_size=len(plan), digest=digest)
    return payload, {f"trt-plan-sha256-{digest.hex()}": plan}


def refer(metadata: bytes, magic: bytes = b"TRTN", **header: Any) -> bytes:
    """The header before the metadata; `header` overrides fields of it."""
    fields = {
        "version": 1,
        "flags": 0,
        "header_size": REFERENCE.size,
        "size": len(metadata),
        "plan_size": 0,
        "digest": bytes(32),
        **header,
    }
    return REFERENCE.pack(magic, *fields.values()) + metadata


def frame(text: bytes, plan: bytes, magic: bytes = b"TR01") -> bytes:
    """The header before metadata and plan."""
    start = -(-(HEADER.size + len(text)) // 16) * 16
    header = HEADER.pack(magic, HEADER.size, len(text), start, len(plan), b"\1" + bytes(7))
    return (header + text).ljust(start, b"\0") + plan


def opened(payload: bytes) -> DelegateEngine:
    """What the native delegate opens for a payload."""
    fields, start = _native.read_payload(payload)
    assert start is not None
    return DelegateEngine(fields, _native.share_plan(payload[start:]))


def opened_from(
    nodes: Sequence[Node],
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    **record: Any,
) -> DelegateEngine:
    plan = plan_of(model(nodes, inputs, outputs).SerializeToString())
    return opened(payload_of(plan, record_of(inputs, outputs, **record)))


def raw(tensor: Tensor) -> RawTensor:
    """A tensor as the native delegate hands it over."""
    return tensor.data_ptr(), NUMBERS[tensor.dtype], list(tensor.shape)
