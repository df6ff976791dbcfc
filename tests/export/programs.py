"""Programs that call engines, put together by hand: no compiler is needed to test lowering."""

import hashlib
import json
import struct
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import torch
from onnx import TensorProto, helper
from torch.export import Dim, ExportedProgram, export

import trt_runtime

ONNX_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "float64": TensorProto.DOUBLE,
}


def execute(inputs: Sequence[torch.Tensor], engine: torch.ScriptObject) -> list[torch.Tensor]:
    return torch.ops.trt_runtime.execute_engine(inputs, engine)


def binding(name: str, dtype: str, *shape: int | str, largest: int = 16) -> dict[str, Any]:
    """A binding of a record; free dimensions go from 1 to `largest`."""
    return {
        "name": name,
        "dtype": dtype,
        "shape": list(shape),
        "min": [dim if isinstance(dim, int) else 1 for dim in shape],
        "opt": [dim if isinstance(dim, int) else 2 for dim in shape],
        "max": [dim if isinstance(dim, int) else largest for dim in shape],
    }


def result(name: str, dtype: str, *shape: int | str) -> dict[str, Any]:
    """An output binding, which has no profile."""
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def onnxruntime_plan(model: onnx.ModelProto) -> bytes:
    """The header of docs/engine-record.md before a model."""
    payload = model.SerializeToString()
    provenance = json.dumps({"builder": "by hand"}).encode()
    offset = -(-(64 + len(provenance)) // 64) * 64
    digest = hashlib.sha256(payload).digest()
    header = struct.pack(
        "<4sHHIIQ32s8x", b"ortp", 1, 0, offset, len(provenance), len(payload), digest
    )
    return (header + provenance).ljust(offset, b"\0") + payload


def rtx_plan(size: int = 200, seed: int = 0) -> bytes:
    """Bytes with the header of a TensorRT-RTX plan for SM80, SM86 and SM89; never run."""
    header = bytearray(36)
    header[:4] = b"vtrt"
    struct.pack_into("<Q", header, 16, size)
    header[24:28] = bytes([1, 7, 1, 116])
    struct.pack_into("<I", header, 32, 0b1110)
    return bytes(header) + bytes((seed + i * 7) % 256 for i in range(size - len(header)))


def engine(
    inputs: Sequence[dict[str, Any]],
    outputs: Sequence[dict[str, Any]],
    plan_bytes: bytes | None = None,
    **record: Any,
) -> torch.ScriptObject:
    """An engine over a TensorRT-RTX plan that only looks like one, unless a plan is given."""
    record = {"name": "engine", "device": "cpu", "provenance": {"builder": "by hand"}, **record}
    return trt_runtime.Engine.from_plan(
        rtx_plan() if plan_bytes is None else plan_bytes,
        {"inputs": list(inputs), "outputs": list(outputs), **record},
    ).script_object


class Calls(torch.nn.Module):
    """A model made of engines (`self.engine`, or more by name) and a forward function."""

    def __init__(self, forward: Callable[..., Any], **attributes: Any) -> None:
        super().__init__()
        self._forward = forward
        for name, value in attributes.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, torch.nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self._forward(self, *inputs)


def two_output_engine(**record: Any) -> torch.ScriptObject:
    """float32 [n, 8], [n, 8] -> float32 [n, 4], int64 [n]."""
    return engine(
        [binding("left", "float32", "i0d0", 8), binding("right", "float32", "i0d0", 8)],
        [result("values", "float32", "i0d0", 4), result("indices", "int64", "i0d0")],
        **record,
    )


def one_output_engine(plan: bytes | None = None, **record: Any) -> torch.ScriptObject:
    """float32 [n, 8] -> float32 [n, 4]."""
    return engine(
        [binding("in_0", "float32", "i0d0", 8)],
        [result("out_0", "float32", "i0d0", 4)],
        plan,
        **record,
    )


def running_engine() -> torch.ScriptObject:
    """Runs in ONNX Runtime: left, right -> left - right, left @ right.T; float32 [n, 8] each."""
    graph = helper.make_graph(
        [
            helper.make_node("Sub", ["left", "right"], ["difference"]),
            helper.make_node("Transpose", ["right"], ["turned"], perm=[1, 0]),
            helper.make_node("MatMul", ["left", "turned"], ["product"]),
        ],
        "two",
        [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 8])
            for name in ("left", "right")
        ],
        [
            helper.make_tensor_value_info("difference", TensorProto.FLOAT, ["n", 8]),
            helper.make_tensor_value_info("product", TensorProto.FLOAT, ["n", "n"]),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    return engine(
        [binding("left", "float32", "i0d0", 8), binding("right", "float32", "i0d0", 8)],
        [result("difference", "float32", "i0d0", 8), result("product", "float32", "i0d0", "i0d0")],
        onnxruntime_plan(model),
        device="cpu",
    )


def one_call(engine: torch.ScriptObject | None = None) -> ExportedProgram:
    """relu -> engine -> + 1, with a batch of 1 to 16."""
    model = Calls(
        lambda self, x: execute([torch.relu(x)], self.engine)[0] + 1,
        engine=engine if engine is not None else one_output_engine(),
    )
    return export(
        model,
        (torch.ones(2, 8),),
        dynamic_shapes=(({0: Dim("batch", min=1, max=16)},),),
        strict=False,
    )


def plan_of(engine: torch.ScriptObject) -> bytes:
    """The plan as the engine itself gives it."""
    import base64

    return base64.b64decode(engine.__getstate__()[0][3])
