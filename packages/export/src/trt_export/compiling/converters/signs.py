"""Operators that look at the sign of their input: of zero, of infinity, of what is not a number."""

import math
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    NARROW_FLOATS,
    Converters,
    cast,
    constant,
    op,
)

aten = torch.ops.aten


def atan2(y: Any, x: Any) -> Any:
    """Return the angle of (x, y).

    torch.onnx's takes `y > 0` for `y >= 0`, so that atan2(0, -1) is -pi; it knows no sign of zero, and turns
    infinity over infinity and NaN into 0.
    """
    dtype = y.dtype
    if dtype in NARROW_FLOATS:
        y, x = cast(y, ir.DataType.FLOAT), cast(x, ir.DataType.FLOAT)
    used = ir.DataType.FLOAT if dtype in NARROW_FLOATS else dtype
    zero, one = constant(0.0, used), constant(1.0, used)
    height, width = op.Abs(y), op.Abs(x)
    # 0/0 and infinity/infinity are NaN: an equal pair has the slope 1, two zeros the slope 0.
    equal = op.Where(op.Equal(height, zero), zero, one)
    slope = op.Where(op.Equal(height, width), equal, op.Div(height, width))
    angle = op.Atan(slope)
    angle = op.Where(_negative(x, zero), op.Sub(constant(math.pi, used), angle), angle)
    angle = op.Where(_negative(y, zero), op.Neg(angle), angle)
    return op.Cast(angle, to=dtype) if dtype in NARROW_FLOATS else angle


def signbit(self: Any) -> Any:
    """Return whether the sign bit is set. torch.onnx's says no for -0.0."""
    if not self.dtype.is_floating_point():
        return NotImplemented
    return _negative(self, constant(0.0, self.dtype))


def _negative(value: Any, zero: Any) -> Any:
    """Return whether a float is negative or -0.0, which only its reciprocal tells. NaN counts as positive."""
    return op.Or(op.Less(value, zero), op.Less(op.Reciprocal(value), zero))


def copysign(self: Any, other: Any) -> Any:
    """Return the first with the sign of the second.

    torch.onnx has none, and torch takes it apart into `prims.signbit`, which it says is a float, but is a bool.
    """
    if not self.dtype.is_floating_point() or self.dtype != other.dtype:
        return NotImplemented
    one, minus_one = constant(1.0, self.dtype), constant(-1.0, self.dtype)
    is_negative = _negative(other, constant(0.0, other.dtype))
    return op.Mul(
        op.Abs(self), op.Where(is_negative, minus_one, one)
    )  # ONNX Runtime negates 0 to 0


def copysign_of_number(self: Any, other: float) -> Any:
    """Return the first with the sign of a number; see `copysign`."""
    if not self.dtype.is_floating_point():
        return NotImplemented
    return op.Mul(op.Abs(self), constant(math.copysign(1.0, other), self.dtype))


def sign(self: Any) -> Any:
    """Return -1, 0 or 1. PyTorch gives 0 for NaN; ONNX Runtime's Sign gives NaN."""
    if not self.dtype.is_floating_point():
        return NotImplemented
    zero = constant(0.0, self.dtype)
    positive, negative = op.Greater(self, zero), op.Less(self, zero)
    return op.Sub(op.Cast(positive, to=self.dtype), op.Cast(negative, to=self.dtype))


def heaviside(self: Any, values: Any) -> Any:
    """Return 0, `values` or 1. PyTorch gives 0 for NaN; torch.onnx's gives 1."""
    zero = constant(0, self.dtype)
    return op.Where(op.Equal(self, zero), values, op.Cast(op.Greater(self, zero), to=self.dtype))


def angle(self: Any) -> Any:
    """Return pi for negative numbers, else 0. PyTorch keeps NaN; torch.onnx's gives 0, and 3 for integers."""
    if not self.dtype.is_floating_point():
        if self.dtype == ir.DataType.BOOL:
            return NotImplemented
        pi, zero = constant(math.pi, ir.DataType.FLOAT), constant(0.0, ir.DataType.FLOAT)
        return op.Where(op.Less(self, constant(0, self.dtype)), pi, zero)
    zero, pi = constant(0.0, self.dtype), constant(math.pi, self.dtype)
    result = op.Where(op.Less(self, zero), pi, zero)
    return op.Where(op.IsNaN(self), self, result)


def isinf(self: Any) -> Any:
    """Return whether it is infinite. torch.onnx's looks at float32: 1e300 is infinite there."""
    if self.dtype != ir.DataType.DOUBLE:
        return NotImplemented
    return op.IsInf(self)


def isneginf(self: Any) -> Any:
    """Return whether it is -infinity; see `isinf`."""
    if self.dtype != ir.DataType.DOUBLE:
        return NotImplemented
    return op.IsInf(self, detect_positive=0)


def isposinf(self: Any) -> Any:
    """Return whether it is infinity; see `isinf`."""
    if self.dtype != ir.DataType.DOUBLE:
        return NotImplemented
    return op.IsInf(self, detect_negative=0)


CONVERTERS: Converters = {
    aten.atan2.default: atan2,
    aten.copysign.Tensor: copysign,
    aten.copysign.Scalar: copysign_of_number,
    aten.signbit.default: signbit,
    aten.sign.default: sign,
    aten.heaviside.default: heaviside,
    aten.angle.default: angle,
    aten.isinf.default: isinf,
    aten.isneginf.default: isneginf,
    aten.isposinf.default: isposinf,
}
