"""Reductions over all dimensions, which PyTorch spells without naming any and torch.onnx does not expect."""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    Converters,
    cast,
    constant,
    op,
)

aten = torch.ops.aten


def mean_over(self: Any, dim: Any, keepdim: bool = False, dtype: int | None = None) -> Any:
    """Return the mean; torch.onnx's makes an invalid model of `dim=None`."""
    if dim is not None:
        return NotImplemented
    values = self if dtype in (None, -1) else cast(self, ir.DataType(dtype))
    return op.ReduceMean(values, keepdims=keepdim) if self.shape else op.Identity(values)


def truth_over(self: Any, dim: Sequence[int] | None = None, keepdim: bool = False) -> Any:
    """Return the truth of each element for `dim=[]`, as PyTorch does; torch.onnx's reduces over all dimensions."""
    if dim is None or len(dim):
        return NotImplemented
    truth = cast(self, ir.DataType.BOOL)
    return cast(truth, ir.DataType.UINT8) if self.dtype == ir.DataType.UINT8 else op.Identity(truth)


def largest(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Return the largest element over all dimensions. torch.onnx's cannot be called without dimensions."""
    if dim:
        return NotImplemented
    return op.ReduceMax(self, None, keepdims=keepdim) if self.shape else op.Identity(self)


def smallest(self: Any, dim: Any = (), keepdim: bool = False) -> Any:
    """Return the smallest element over all dimensions; see `largest`."""
    if dim:
        return NotImplemented
    return op.ReduceMin(self, None, keepdims=keepdim) if self.shape else op.Identity(self)


def position_of_largest(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the position among all elements; torch.onnx's loses the dimensions that `keepdim` keeps."""
    return NotImplemented if dim is not None or not keepdim else _position(op.ArgMax, self)


def position_of_smallest(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the position among all elements; see `position_of_largest`."""
    return NotImplemented if dim is not None or not keepdim else _position(op.ArgMin, self)


def _position(operator: Any, values: Any) -> Any:
    flat = op.Reshape(values, constant([-1], ir.DataType.INT64))
    ones = constant([1] * len(values.shape), ir.DataType.INT64)
    return op.Reshape(operator(flat, axis=0, keepdims=1), ones)


def variance(
    inp: Any,
    dims: Sequence[int] | None,
    correction: float | None = 1,
    *,
    output_dtype: int | None = None,
) -> Any:
    """Return the variance of one number without dimensions, at which torch.onnx's fails: 0, or NaN if corrected."""
    if inp.shape:
        return NotImplemented
    divisor = max(0.0, 1.0 - (1 if correction is None else correction))
    result = op.Div(op.Sub(inp, inp), constant(divisor, inp.dtype))
    return result if output_dtype in (None, -1) else cast(result, ir.DataType(output_dtype))


CONVERTERS: Converters = {
    aten.amax.default: largest,
    aten.amin.default: smallest,
    aten.mean.dim: mean_over,
    aten.any.dims: truth_over,
    aten.all.dims: truth_over,
    aten.argmax.default: position_of_largest,
    aten.argmin.default: position_of_smallest,
    torch.ops.prims.var.default: variance,
}
