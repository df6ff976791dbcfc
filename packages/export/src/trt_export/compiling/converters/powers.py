"""Powers: at infinity and zero as PyTorch has them, and of integers without a detour over float64."""

from typing import Any

import torch

from trt_export.compiling.converters.values import (
    NARROW_FLOATS,
    Converters,
    NoExactTranslationError,
    constant,
    known,
    op,
)

aten = torch.ops.aten


def power(self: Any, exponent: Any) -> Any:
    """Raise to a power.

    PyTorch takes the root for the exponent 0.5 (NaN for -infinity, -0.0 for -0.0), ONNX Runtime infinity and 0; and
    ONNX Runtime computes powers of integers in float64.
    """
    dtype = self.dtype
    if dtype.is_integer():
        return _integer_power(self, exponent)
    if dtype in NARROW_FLOATS:
        return NotImplemented  # PyTorch takes no root here
    scalar = not getattr(exponent, "shape", ())
    number = known(exponent) if scalar else None
    if number == 0.5:
        return op.Sqrt(self)
    if number == -0.5:
        return op.Reciprocal(op.Sqrt(self))
    return NotImplemented


def power_of_number(self: Any, exponent: Any) -> Any:
    """Raise a Python number to powers. ONNX Runtime computes integers in float64."""
    if isinstance(self, int) and exponent.dtype.is_integer():
        raise NoExactTranslationError(_INTEGERS)
    return NotImplemented


_INTEGERS = "ONNX Runtime computes powers of integers in float64, which is wrong beyond 2**53"


def _integer_power(self: Any, exponent: Any) -> Any:
    scalar = not getattr(exponent, "shape", ())
    number = known(exponent) if scalar else None
    if isinstance(number, float):
        return NotImplemented  # the result is a float
    if not isinstance(number, int) or number < 0:
        raise NoExactTranslationError(_INTEGERS)
    if number == 0:
        return op.Expand(constant(1, self.dtype), op.Shape(self))
    result, square = None, self
    while True:
        if number % 2:
            result = square if result is None else op.Mul(result, square)
        number //= 2
        if not number:
            return op.Identity(self) if result is self else result
        square = op.Mul(square, square)


CONVERTERS: Converters = {
    aten.pow.Tensor_Scalar: power,
    aten.pow.Tensor_Tensor: power,
    aten.pow.Scalar: power_of_number,
}
