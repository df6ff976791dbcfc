"""Small ONNX models with large weights, by what ONNX Runtime does with those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

from .building import Node, binding, model

_RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RANDOM.standard_normal(shape).astype(np.float32)


W, V = normal(64, 64), normal(64, 64)
X = binding("x", "float32", [4, 64], {})
Y = binding("y", "float32", [4, 64])


@dataclass
class Case:
    name: str
    nodes: list[Node]
    weights: dict[str, np.ndarray[Any, Any]]
    shared: int
    """How many weights ONNX Runtime is given where they lie, whether it reads them there or once."""
    x: dict[str, Any] | None = None
    y: dict[str, Any] | None = None
    change: Callable[[ModelProto], object] = lambda proto: None

    def proto(self) -> ModelProto:
        tensors = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        proto = model(self.nodes, [self.x or X], [self.y or Y], tensors)
        self.change(proto)
        return proto

    def __str__(self) -> str:
        return self.name


def image(dtype: str = "float32") -> dict[str, Any]:
    return binding("x", dtype, [1, 16, 8, 8], {})


def filtered() -> dict[str, Any]:
    return binding("y", "float32", [1, 32, 6, 6])


def indices() -> dict[str, Any]:
    return binding("x", "int64", [4], {})


def half(name: str) -> dict[str, Any]:
    return binding(name, "float16", [4, 64], {} if name == "x" else None)


def branches(proto: ModelProto) -> None:
    inner = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["inner"])],
        "inner",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    (node,) = (node for node in proto.graph.node if node.op_type == "If")
    node.attribute.extend(
        helper.make_attribute(name, inner) for name in ("then_branch", "else_branch")
    )


def also_an_output(proto: ModelProto) -> None:
    proto.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64]))


def also_an_input(proto: ModelProto) -> None:
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64]))


def as_floats(proto: ModelProto) -> None:
    (tensor,) = proto.graph.initializer
    tensor.ClearField("raw_data")
    tensor.float_data.extend(W.ravel())


def in_a_sparse_tensor(proto: ModelProto) -> None:
    del proto.graph.initializer[:]
    values = helper.make_tensor("w", TensorProto.FLOAT, [2000], normal(2000))
    places = helper.make_tensor("places", TensorProto.INT64, [2000], np.arange(2000) * 2)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [64, 64]))


MATMUL: list[Node] = [("MatMul", ["x", "w"], ["y"])]
CASES = [
    Case("matmul", MATMUL, {"w": W}, 1),
    Case("small", [("MatMul", ["x", "w"], ["y"])], {"w": W[:, :15].copy()}, 0,
         y=binding("y", "float32", [4, 15])),
    Case("two", [("MatMul", ["x", "w"], ["h"]), ("Gemm", ["h", "v"], ["y"], {"transB": 1})],
         {"w": W, "v": V}, 2),
    Case("gather", [("Gather", ["w", "x"], ["y"])], {"w": W}, 1, x=indices()),
    Case("float16 gather", [("Gather", ["w", "x"], ["y"])], {"w": W.astype(np.float16)}, 1,
         x=indices(), y=half("y")),
    Case("bool", [("Gather", ["w", "x"], ["y"])], {"w": W > 0}, 1,
         x=indices(), y=binding("y", "bool", [4, 64])),
    Case("int64", [("Gather", ["w", "x"], ["y"])], {"w": (W * 9).astype(np.int64)}, 1,
         x=indices(), y=binding("y", "int64", [4, 64])),
    Case("float64", MATMUL, {"w": W.astype(np.float64)}, 1,
         x=binding("x", "float64", [4, 64], {}), y=binding("y", "float64", [4, 64])),
    Case("integers", [("MatMulInteger", ["x", "w"], ["y"])], {"w": (W * 20).astype(np.int8)}, 1,
         x=binding("x", "uint8", [4, 64], {}), y=binding("y", "int32", [4, 64])),
    Case("empty beside", [("Concat", ["x", "e"], ["h"], {"axis": 0}), ("MatMul", ["h", "w"], ["y"])],
         {"w": W, "e": normal(0, 64)}, 1),
    # What ONNX Runtime computes once and for all
    Case("transposed", [("Transpose", ["w"], ["t"]), ("MatMul", ["x", "t"], ["y"])], {"w": W}, 1),
    Case("transposed, one of two",
         [("Transpose", ["w"], ["t"]), ("MatMul", ["x", "t"], ["h"]), ("MatMul", ["h", "v"], ["k"]),
          ("MatMul", ["k", "u"], ["y"])],
         {"w": W, "v": V, "u": W + V}, 3),
    Case("added", [("Add", ["w", "v"], ["t"]), ("MatMul", ["x", "t"], ["y"])],
         {"w": W, "v": normal(64)}, 1),
    Case("reshaped", [("Constant", [], ["s"], {"value_ints": [64, 64]}), ("Reshape", ["w", "s"], ["t"]),
                      ("MatMul", ["x", "t"], ["y"])], {"w": W.ravel()}, 1),
    Case("dequantized", [("DequantizeLinear", ["w", "s"], ["t"]), ("MatMul", ["x", "t"], ["y"])],
         {"w": (W * 20).astype(np.int8), "s": np.array(0.05, np.float32)}, 1),
    Case("convolution", [("Conv", ["x", "w"], ["y"])], {"w": normal(32, 16, 3, 3)}, 1,
         x=image(), y=filtered()),
    Case("convolution and normalization",
         [("Conv", ["x", "w"], ["h"]), ("BatchNormalization", ["h", *"abcd"], ["y"])],
         {"w": normal(32, 16, 3, 3), **{name: abs(normal(32)) for name in "abcd"}}, 1,
         x=image(), y=filtered()),
    # What an optimization writes anew
    Case("transposed by an optimization",
         [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("Add", ["t", "w"], ["u"]),
          ("Transpose", ["u"], ["y"], {"perm": [1, 0]})],
         {"w": W}, 1, x=binding("x", "float32", [64, 64], {}), y=binding("y", "float32", [64, 64])),
    Case("float16", MATMUL, {"w": W.astype(np.float16)}, 1, x=half("x"), y=half("y")),
    Case("float16 behind a table", [("Gather", ["t", "x"], ["h"]), ("MatMul", ["h", "w"], ["y"])],
         {"t": normal(100, 64).astype(np.float16), "w": W.astype(np.float16)}, 2,
         x=indices(), y=half("y")),
    # What is no plain constant
    Case("in branches",
         [("ReduceSum", ["x"], ["s"], {"keepdims": 0}), ("Cast", ["s"], ["c"], {"to": TensorProto.BOOL}),
          ("If", ["c"], ["y"])], {"w": W}, 1, change=branches),
    Case("an output too", MATMUL, {"w": W}, 1, change=also_an_output),
    Case("an input too", MATMUL, {"w": W}, 1, change=also_an_input),
    Case("as floats", MATMUL, {"w": W}, 0, change=as_floats),
    Case("sparse", MATMUL, {"w": W}, 0, change=in_a_sparse_tensor),
    Case("not used", MATMUL, {"w": W, "v": normal(50, 50)}, 2),
]  # fmt: skip


def arguments(case: Case) -> torch.Tensor:
    x = case.x or X
    if x["dtype"] == "int64":
        return torch.tensor([0, 63, 5, 5])
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(x["shape"], generator=generator)
    return (values * (30 if x["dtype"] == "uint8" else 1)).abs().to(getattr(torch, x["dtype"]))
