"""Small ONNX models, plans and records for the tests of this folder."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from typing import Any

import torch
from onnx import ModelProto, TensorProto, helper

import trt_runtime

# Operator, names of inputs, names of outputs and, if there are any, attributes.
Node = (
    tuple[str, Sequence[str], Sequence[str]]
    | tuple[str, Sequence[str], Sequence[str], dict[str, Any]]
)

HEADER = struct.Struct("<4sHHIIQ32s8x")

_ONNX_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float64": TensorProto.DOUBLE,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
    "int16": TensorProto.INT16,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "bool": TensorProto.BOOL,
}


def binding(
    name: str,
    dtype: str,
    shape: Sequence[int | str],
    bounds: dict[int, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    """A binding's mapping; `bounds` gives min and max of dynamic dims and makes it an input."""
    fields: dict[str, Any] = {"name": name, "dtype": dtype, "shape": list(shape)}
    if bounds is not None:
        limits = [bounds.get(i, (dim, dim)) for i, dim in enumerate(shape)]
        fields["min"] = [low for low, _ in limits]
        fields["opt"] = [high for _, high in limits]
        fields["max"] = [high for _, high in limits]
    return fields


def model(
    nodes: Sequence[Node],
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    weights: Sequence[TensorProto] = (),
) -> ModelProto:
    """An ONNX model over the bindings."""

    def value(fields: dict[str, Any]) -> Any:
        # ONNX Runtime must not know more of a dynamic size than the record says.
        shape = [dim if isinstance(dim, int) else None for dim in fields["shape"]]
        return helper.make_tensor_value_info(fields["name"], _ONNX_TYPES[fields["dtype"]], shape)

    graph = helper.make_graph(
        [
            helper.make_node(op, list(ins), list(outs), **dict(*attrs))
            for op, ins, outs, *attrs in nodes
        ],
        "test",
        [value(fields) for fields in inputs],
        [value(fields) for fields in outputs],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def written_aligned(proto: ModelProto, alignment: int = 64, shift: int = 0) -> bytes:
    """Serialize a model with its weights at multiples of `alignment`, as trt-export does, and `shift` more."""
    rest = ModelProto()
    rest.CopyFrom(proto)
    del rest.graph.initializer[:]
    data = rest.SerializeToString()
    for weight in proto.graph.initializer:
        part = ModelProto()
        part.graph.initializer.append(weight)
        tensor = part.graph.initializer[0]
        raw = tensor.raw_data
        for size in range(1, 200):  # of a comment
            tensor.doc_string = " " * size
            # `raw_data` has a lower number than `doc_string` and is written first: it is appended by hand.
            tensor.ClearField("raw_data")
            body = tensor.SerializeToString() + bytes([9 << 3 | 2]) + varint(len(raw))
            inner = bytes([5 << 3 | 2]) + varint(len(body) + len(raw)) + body
            before = bytes([7 << 3 | 2]) + varint(len(inner) + len(raw)) + inner
            if (len(data) + len(before)) % alignment == shift:
                break
        data += before + raw if raw else part.SerializeToString()
    return data


def varint(number: int) -> bytes:
    """A number as protobuf writes it."""
    low = bytes([number & 127 | (number > 127) << 7])
    return low + varint(number >> 7) if number > 127 else low


def plan_of(payload: bytes, provenance: dict[str, Any] | None = None) -> bytes:
    """Our header around a payload."""
    text = json.dumps(provenance or {}).encode()
    offset = -(-(HEADER.size + len(text)) // 64) * 64
    header = HEADER.pack(
        b"ortp", 1, 0, offset, len(text), len(payload), hashlib.sha256(payload).digest()
    )
    return (header + text).ljust(offset, b"\0") + payload


def record_of(
    inputs: Sequence[dict[str, Any]], outputs: Sequence[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    """A record as a mapping."""
    return {
        "name": "test",
        "device": "cpu",
        "inputs": list(inputs),
        "outputs": list(outputs),
        **more,
    }


def engine_of(
    nodes: Sequence[Node],
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    **more: Any,
) -> trt_runtime.Engine:
    """An engine that ONNX Runtime runs."""
    payload = model(nodes, inputs, outputs).SerializeToString()
    return trt_runtime.Engine.from_plan(plan_of(payload), record_of(inputs, outputs, **more))


RELU_INPUTS = [binding("in_0", "float32", ["i0d0", 8], {0: (1, 16)})]
RELU_OUTPUTS = [binding("out_0", "float32", ["i0d0", 8])]
RELU_PLAN = plan_of(
    model([("Relu", ["in_0"], ["out_0"])], RELU_INPUTS, RELU_OUTPUTS).SerializeToString()
)


def relu_record(**more: Any) -> dict[str, Any]:
    """The record of RELU_PLAN: [batch 1 to 16, 8] float32 in and out."""
    return record_of(RELU_INPUTS, RELU_OUTPUTS, **more)


def relu_engine(**more: Any) -> trt_runtime.Engine:
    """An engine that computes relu."""
    return trt_runtime.Engine.from_plan(RELU_PLAN, relu_record(**more))


class Calls(torch.nn.Module):
    """A model that calls an engine between two operators of PyTorch."""

    def __init__(self, engine: trt_runtime.Engine) -> None:
        super().__init__()
        self.engine = engine.script_object

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.ops.trt_runtime.execute_engine([x + 1], self.engine)[0] * 2
