"""Small ONNX models as build requests, put together by hand."""

import numpy as np
import onnx_ir as ir

from trt_export.builders import Binding, BuildRequest, OnnxFile


def matmul_request(
    weight: np.ndarray | None = None, operator: str = "Relu", named: str = "weight"
) -> BuildRequest:
    """`out_0 = operator(in_0 @ weight)` for in_0 of [1 to 8, 4]."""
    weight = np.eye(4, dtype=np.float32) if weight is None else weight
    dtype = ir.DataType.from_numpy(weight.dtype)
    entry = ir.Value(name="in_0", shape=ir.Shape(["n", 4]), type=ir.TensorType(dtype))
    constant = ir.Value(name=named, shape=ir.Shape(weight.shape), type=ir.TensorType(dtype))
    constant.const_value = ir.tensor(weight, name=named)
    product = ir.Node("", "MatMul", [entry, constant], name="n0_MatMul")
    product.outputs[0].name = "product"
    product.outputs[0].shape, product.outputs[0].type = (
        ir.Shape(["n", weight.shape[1]]),
        ir.TensorType(dtype),
    )
    last = ir.Node("", operator, [product.outputs[0]], name=f"n1_{operator}")
    last.outputs[0].name = "out_0"
    last.outputs[0].shape, last.outputs[0].type = (
        ir.Shape(["n", weight.shape[1]]),
        ir.TensorType(dtype),
    )
    graph = ir.Graph(
        [entry],
        [last.outputs[0]],
        nodes=[product, last],
        initializers=[constant],
        opset_imports={"": 20},
        name="main",
    )
    return BuildRequest(
        "engine_0",
        OnnxFile(ir.Model(graph, ir_version=10)),
        (Binding("in_0", str(weight.dtype), ("i0d0", 4), (1, 4), (2, 4), (8, 4)),),
        (Binding("out_0", str(weight.dtype), ("i0d0", weight.shape[1])),),
    )
