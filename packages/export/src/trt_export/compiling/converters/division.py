"""Division of integers without a detour over floats, and of floats as PyTorch rounds it."""

from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    NARROW_FLOATS,
    Converters,
    constant,
    known,
    like,
    op,
)

aten = torch.ops.aten


def div_mode(self: Any, other: Any, rounding_mode: str | None = None) -> Any:
    """Divide and round. torch.onnx's divides integers in float32: 2147483647 / 2 is 1073741824 there."""
    if rounding_mode == "floor":
        return floor_divide(self, other)
    if rounding_mode == "trunc" and _dtype(self, other).is_integer():
        dtype = _dtype(self, other)
        return _divided(like(self, dtype), like(other, dtype), dtype)
    return NotImplemented


def floor_divide(self: Any, other: Any) -> Any:
    """Divide and round down.

    torch.onnx's rounds the quotient of floats first, so 1.0 // 0.1 is 10 there and 9 in PyTorch; and ONNX Runtime
    ends the process where the smallest integer is divided by -1.
    """
    dtype = _dtype(self, other)
    self, other = like(self, dtype), like(other, dtype)
    if dtype.is_integer():
        return _divided_down(self, other, dtype)
    return _wide(_floor_of_floats, self, other, dtype)


def remainder(self: Any, other: Any) -> Any:
    """Return what is left after rounding down. torch.onnx's subtracts a rounded product; infinity comes out as NaN."""
    dtype = _dtype(self, other)
    self, other = like(self, dtype), like(other, dtype)
    if dtype.is_integer():
        return op.Mod(self, other)
    return _wide(_remainder_of_floats, self, other, dtype)


def fmod(self: Any, other: Any) -> Any:
    """Return what is left after rounding towards zero. ONNX Runtime's computes integers in float64."""
    dtype = _dtype(self, other)
    if not dtype.is_integer():
        return NotImplemented
    self, other = like(self, dtype), like(other, dtype)
    return op.Sub(self, op.Mul(_divided(self, other, dtype), other))


def _dtype(self: Any, other: Any) -> ir.DataType:
    dtype = (self if isinstance(self, ir.Value) else other).dtype
    assert isinstance(dtype, ir.DataType)
    return dtype


def _divided(self: Any, other: Any, dtype: ir.DataType) -> Any:
    """Divide integers towards zero. The smallest by -1, which traps on x86, gives itself, as in PyTorch."""
    if known(other) not in (None, -1) or dtype not in (ir.DataType.INT32, ir.DataType.INT64):
        return op.Div(self, other)
    if dtype == ir.DataType.INT32:
        wide = (op.Cast(value, to=ir.DataType.INT64) for value in (self, other))
        return op.Cast(op.Div(*wide), to=dtype)
    if known(other) == -1:
        return op.Neg(self)
    one, minus_one = constant(1, dtype), constant(-1, dtype)
    negates = op.Equal(other, minus_one)
    return op.Where(negates, op.Neg(self), op.Div(self, op.Where(negates, one, other)))


def _divided_down(self: Any, other: Any, dtype: ir.DataType) -> Any:
    quotient = _divided(self, other, dtype)
    if not dtype.is_signed():
        return quotient
    zero = constant(0, dtype)
    divisor = known(other)
    product = op.Mul(quotient, other)
    if (
        divisor is not None
    ):  # its sign tells on which side of `self` a quotient lies that was rounded up
        rounded_up = (op.Less if divisor > 0 else op.Greater)(self, product)
    else:
        other_signs = op.Xor(op.Less(self, zero), op.Less(other, zero))
        rounded_up = op.And(other_signs, op.Not(op.Equal(self, product)))
    return op.Sub(quotient, op.Cast(rounded_up, to=dtype))


def _wide(function: Any, self: Any, other: Any, dtype: ir.DataType) -> Any:
    if dtype not in NARROW_FLOATS:
        return function(self, other, dtype)
    used = ir.DataType.FLOAT
    divisor = known(other)
    wide = constant(divisor, used) if divisor is not None else op.Cast(other, to=used)
    return op.Cast(function(op.Cast(self, to=used), wide, used), to=dtype)


def _floor_of_floats(self: Any, other: Any, dtype: ir.DataType) -> Any:
    """`div_floor_floating` of PyTorch: the exact remainder tells whether a quotient was rounded up."""
    rest = op.Mod(self, other, fmod=1)
    quotient = op.Div(op.Sub(self, rest), other)
    down = op.Cast(_points_back(rest, other, dtype), to=dtype)
    quotient = op.Round(op.Sub(quotient, down))
    if known(other) not in (None, 0):
        return quotient
    return op.Where(op.Equal(other, constant(0, dtype)), op.Div(self, other), quotient)


def _remainder_of_floats(self: Any, other: Any, dtype: ir.DataType) -> Any:
    rest = op.Mod(self, other, fmod=1)
    return op.Where(_points_back(rest, other, dtype), op.Add(rest, other), rest)


def _points_back(rest: Any, other: Any, dtype: ir.DataType) -> Any:
    """Return whether a remainder that is not zero has another sign than the divisor."""
    zero = constant(0, dtype)
    divisor = known(other)
    if divisor is not None:
        return (op.Less if divisor > 0 else op.Greater)(rest, zero)
    return op.Less(op.Mul(op.Sign(rest), op.Sign(other)), zero)


CONVERTERS: Converters = {
    aten.div.Tensor_mode: div_mode,
    aten.div.Scalar_mode: div_mode,
    aten.floor_divide.default: floor_divide,
    aten.floor_divide.Scalar: floor_divide,
    aten.remainder.Tensor: remainder,
    aten.remainder.Scalar: remainder,
    aten.remainder.Scalar_Tensor: remainder,
    aten.fmod.Tensor: fmod,
    aten.fmod.Scalar: fmod,
}
