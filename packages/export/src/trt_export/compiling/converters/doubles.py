"""Operators of float64 whose number ONNX keeps as a float32 attribute, by operators that take it as an input.

`exact_numbers` refuses those that are not here, and they stay in PyTorch.
"""

import math
from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import Converters, constant, op

aten = torch.ops.aten

_DOUBLE = ir.DataType.DOUBLE


def layer_norm(
    input: Any,
    normalized_shape: Sequence[int],
    weight: Any = None,
    bias: Any = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Any:
    """Normalize the last dimensions; epsilon is an attribute of `LayerNormalization`."""
    if input.dtype != _DOUBLE:
        return NotImplemented
    axes = constant(list(range(-len(normalized_shape), 0)), ir.DataType.INT64)
    centered = op.Sub(input, op.ReduceMean(input, axes, keepdims=1))
    variance = op.ReduceMean(op.Mul(centered, centered), axes, keepdims=1)
    result = op.Div(centered, op.Sqrt(op.Add(variance, constant(eps, _DOUBLE))))
    result = result if weight is None else op.Mul(result, weight)
    return result if bias is None else op.Add(result, bias)


def leaky_relu(self: Any, negative_slope: float = 0.01) -> Any:
    """Multiply negative numbers by the slope, an attribute of `LeakyRelu`."""
    if self.dtype != _DOUBLE:
        return NotImplemented
    scaled = op.Mul(self, constant(negative_slope, _DOUBLE))
    return op.Where(op.Greater(self, constant(0.0, _DOUBLE)), self, scaled)


def hardtanh(self: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Clip; torch.onnx's keeps both ends as attributes of a function."""
    if self.dtype != _DOUBLE:
        return NotImplemented
    return op.Clip(self, constant(min_val, _DOUBLE), constant(max_val, _DOUBLE))


def addcmul(self: Any, tensor1: Any, tensor2: Any, value: float = 1.0) -> Any:
    """Add a product; torch.onnx's keeps the factor as an attribute of a function."""
    if self.dtype != _DOUBLE:
        return NotImplemented
    return op.Add(self, op.Mul(op.Mul(constant(value, _DOUBLE), tensor1), tensor2))


def addcdiv(self: Any, tensor1: Any, tensor2: Any, value: float = 1.0) -> Any:
    """Add a quotient; torch.onnx's keeps the factor as an attribute of a function."""
    if self.dtype != _DOUBLE:
        return NotImplemented
    return op.Add(self, op.Div(op.Mul(constant(value, _DOUBLE), tensor1), tensor2))


def arange(start: Any, end: Any, step: Any = 1, dtype: int | None = None, **_: Any) -> Any:
    """Count in float64; torch.onnx's counts in float32 and converts the result."""
    numbers = (start, end, step)
    if dtype != _DOUBLE or not all(isinstance(one, (int, float)) for one in numbers):
        return NotImplemented
    # Each is a product in PyTorch; a sum of steps would round at every step.
    count = math.ceil((end - start) / step)
    return op.Add(
        constant(start, _DOUBLE),
        op.Mul(constant([float(i) for i in range(count)], _DOUBLE), constant(step, _DOUBLE)),
    )


CONVERTERS: Converters = {
    aten.layer_norm.default: layer_norm,
    aten.leaky_relu.default: leaky_relu,
    aten.hardtanh.default: hardtanh,
    aten.addcmul.default: addcmul,
    aten.addcdiv.default: addcdiv,
    aten.arange.start_step: arange,
}
