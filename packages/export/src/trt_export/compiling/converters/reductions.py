"""Sums and products of integers: ONNX Runtime computes them in float64, and saturates those of int32."""

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import Converters, NoExactTranslationError, constant, op

aten = torch.ops.aten

_INT64 = ir.DataType.INT64
_SMALL = (
    *(ir.DataType.BOOL, ir.DataType.INT8, ir.DataType.UINT8),
    *(ir.DataType.INT16, ir.DataType.UINT16, ir.DataType.INT32),
)
"""A sum of 2**21 of these is below 2**53."""


def sum_all(self: Any, dtype: int | None = None) -> Any:
    """Add up all elements; see `sum_over`."""
    return sum_over(self, None, False, dtype)


def sum_over(self: Any, dim: Any = None, keepdim: bool = False, dtype: int | None = None) -> Any:
    """Add up over dimensions.

    torch.onnx's adds in the dtype of the input and converts the sum: int32 saturates, and a sum of float16 in float32
    overflows. ONNX Runtime adds int64 in float64, so the halves of the integers are added each by itself.
    """
    given = None if dtype in (None, -1) else ir.DataType(dtype)
    result = given or (
        _INT64 if self.dtype.is_integer() or self.dtype == ir.DataType.BOOL else None
    )
    if result is None or (result == self.dtype and not result.is_integer()):
        return NotImplemented
    if not self.shape:
        return op.Cast(self, to=result)
    if result.is_integer() and result != _INT64:  # PyTorch wraps around, ONNX Runtime saturates
        return op.Cast(sum_over(self, dim, keepdim, _INT64), to=result)
    values = self if self.dtype == result else op.Cast(self, to=result)
    axes = None if dim is None else _axes(dim)

    def total(part: Any) -> Any:
        return op.ReduceSum(part, axes, keepdims=keepdim)

    if result != _INT64 or _is_small(self):
        return total(values)
    half = constant(2**32, _INT64)
    low = op.Mod(values, half)
    # An arithmetic shift: what is subtracted first makes the division exact.
    high = op.Div(op.Sub(values, low), half)
    return op.Add(op.Mul(total(high), half), total(low))


def _is_small(value: Any) -> bool:
    """Whether the integers are surely below 2**32: they were converted from a narrower dtype."""
    if value.dtype in _SMALL:
        return True
    source = value.producer()
    while source is not None and source.op_type in _MOVES:
        value = source.inputs[0]
        source = value.producer()
    return source is not None and source.op_type == "Cast" and source.inputs[0].dtype in _SMALL


_MOVES = ("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Slice", "Expand")


def _axes(dim: Any) -> Any:
    return constant([dim] if isinstance(dim, int) else list(dim), _INT64) if dim != [] else None


def product(self: Any, dtype: int | None = None) -> Any:
    """Multiply all elements; see `product_over`."""
    result = _product_dtype(self, dtype)
    if result is None:
        return NotImplemented
    if not self.shape:
        return op.Cast(self, to=result)
    flat = op.Reshape(self, constant([-1], _INT64))
    sizes = [size if isinstance(size, int) else None for size in self.shape]
    count = None if None in sizes else _count([size for size in sizes if size is not None])
    squeeze = constant([0], _INT64)
    return op.Squeeze(_multiplied(op.Cast(flat, to=result), 0, count, result), squeeze)


def product_over(self: Any, dim: int, keepdim: bool = False, dtype: int | None = None) -> Any:
    """Multiply over a dimension: pairs of halves, since ONNX Runtime's ReduceProd multiplies integers in float64."""
    result = _product_dtype(self, dtype)
    if result is None:
        return NotImplemented
    if not self.shape:
        return op.Cast(self, to=result)
    dim = dim % len(self.shape)
    size = self.shape[dim]
    values = _multiplied(
        op.Cast(self, to=result), dim, size if isinstance(size, int) else None, result
    )
    return values if keepdim else op.Squeeze(values, constant([dim], _INT64))


def any_over(self: Any, dim: int, keepdim: bool = False) -> Any:
    """Return whether one of a dimension is true. torch.onnx's finds one among none.

    It converts the largest of no integers, which is the smallest integer, to a truth value.
    """
    size = self.shape[dim] if self.shape else 1
    if isinstance(size, int) and size > 0:
        return NotImplemented
    numbers = op.Cast(op.Cast(self, to=ir.DataType.BOOL), to=ir.DataType.INT32)
    highest = op.ReduceMax(numbers, constant([dim], _INT64), keepdims=keepdim)
    return op.Greater(highest, constant(0, ir.DataType.INT32))


def _product_dtype(self: Any, dtype: int | None) -> ir.DataType | None:
    """Return the dtype of a product of integers, None if it is one of floats."""
    if dtype not in (None, -1):
        stated = ir.DataType(dtype)
        return stated if stated.is_integer() else None
    return _INT64 if self.dtype.is_integer() or self.dtype == ir.DataType.BOOL else None


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


def _multiplied(values: Any, dim: int, size: int | None, dtype: ir.DataType) -> Any:
    if not size:  # None, or an empty dimension
        raise NoExactTranslationError(
            "ONNX Runtime multiplies integers in float64, which is wrong beyond 2**53, and the number of factors "
            "is not known here"
        )
    axis = constant([dim], _INT64)
    step = constant([1], _INT64)

    def part(start: int, end: int) -> Any:
        return op.Slice(values, constant([start], _INT64), constant([end], _INT64), axis, step)

    while size > 1:
        half = size // 2
        pairs = op.Mul(part(0, half), part(half, 2 * half))
        values = pairs if size % 2 == 0 else op.Concat(pairs, part(size - 1, size), axis=dim)
        size = half + size % 2
    return values


CONVERTERS: Converters = {
    aten.any.dim: any_over,
    aten.sum.default: sum_all,
    aten.sum.dim_IntList: sum_over,
    aten.prod.default: product,
    aten.prod.dim_int: product_over,
}
