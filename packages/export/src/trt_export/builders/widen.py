"""Rewrites an ONNX model so that it computes bfloat16 in float32: ONNX Runtime's CPU has no bfloat16 kernels."""

import numpy as np
import onnx

_WIDE, _NARROW = onnx.TensorProto.FLOAT, onnx.TensorProto.BFLOAT16
_DTYPE_ATTRIBUTES = ("to", "dtype", "output_dtype")


def widen(model: onnx.ModelProto) -> None:
    """Make every bfloat16 value, constant and conversion of the model float32, in place."""
    _widen_graph(model.graph)


def _widen_graph(graph: onnx.GraphProto) -> None:
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == _NARROW:
            value.type.tensor_type.elem_type = _WIDE
    for tensor in graph.initializer:
        _widen_tensor(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in _DTYPE_ATTRIBUTES and attribute.i == _NARROW:
                attribute.i = _WIDE
            if attribute.HasField("t"):
                _widen_tensor(attribute.t)
            if attribute.HasField("g"):
                _widen_graph(attribute.g)


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type != _NARROW:
        return
    numbers = onnx.numpy_helper.to_array(tensor).astype(np.float32)
    tensor.CopyFrom(onnx.numpy_helper.from_array(numbers, tensor.name))
