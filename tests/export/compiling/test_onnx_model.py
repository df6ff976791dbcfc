"""Bindings are named by position, whatever torch.onnx's converters and optimizer made of inputs and outputs."""

from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.onnx_model import _pin_names


def _subprogram(dtypes: list[torch.dtype]) -> Any:
    nodes = [
        SimpleNamespace(name=f"n{i}", meta={"val": torch.empty(2, dtype=dtype)})
        for i, dtype in enumerate(dtypes)
    ]
    return SimpleNamespace(inputs=nodes[:1], outputs=nodes)


def test_outputs_that_are_inputs_or_each_other_get_values_of_their_own() -> None:
    entry = ir.Value(name="out_1", shape=ir.Shape([2]), type=ir.TensorType(ir.DataType.FLOAT))
    relu = ir.Node("", "Relu", [entry], name="relu")
    relu.outputs[0].name = "in_0"
    relu.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    outputs = [entry, relu.outputs[0], relu.outputs[0], entry]
    graph = ir.Graph([entry], outputs, nodes=[relu], opset_imports={"": 20}, name="main")
    _pin_names(ir.Model(graph, ir_version=10), _subprogram([torch.float32] * 3 + [torch.float16]))
    assert [value.name for value in graph.inputs] == ["in_0"]
    assert [value.name for value in graph.outputs] == ["out_0", "out_1", "out_2", "out_3"]
    assert [value.producer().op_type for value in graph.outputs] == [
        "Identity",
        "Relu",
        "Identity",
        "Cast",
    ]
    assert graph.outputs[3].dtype == ir.DataType.FLOAT16
