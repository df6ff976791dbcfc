"""Exponentials and logarithms by formulas that neither overflow nor cancel."""

import math
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    NARROW_FLOATS,
    Converter,
    Converters,
    NoExactTranslationError,
    constant,
    like,
    op,
)

aten = torch.ops.aten

_DOUBLE = ir.DataType.DOUBLE


def _rounded_once(function: Callable[..., Any]) -> Converter:
    """Return the converter of a function of floats; narrow ones are computed in float32 and rounded at the end."""

    def convert(*args: Any) -> Any:
        dtype = next(one.dtype for one in args if isinstance(one, ir.Value))
        assert dtype is not None
        if not dtype.is_floating_point():
            return NotImplemented
        if dtype not in NARROW_FLOATS:
            return function(*(like(one, dtype) for one in args), dtype)
        used = ir.DataType.FLOAT
        wide = (
            op.Cast(one, to=used) if isinstance(one, ir.Value) else constant(one, used)
            for one in args
        )
        return op.Cast(function(*wide, used), to=dtype)

    return convert


def _log1p(x: Any, dtype: ir.DataType) -> Any:
    """Return log(1 + x). torch.onnx's rounds the sum first: of 1e-9 it gives 0.

    The rounding of the sum is divided out (Kahan): log(u) * x / (u - 1) with u = 1 + x.
    """
    one = constant(1.0, dtype)
    total = op.Add(x, one)
    logarithm = op.Log(total)
    near = op.Where(op.Equal(total, one), x, op.Mul(logarithm, op.Div(x, op.Sub(total, one))))
    return op.Where(op.Greater(x, one), logarithm, near)


def _expm1(x: Any, dtype: ir.DataType) -> Any:
    """Return exp(x) - 1, as tanh(x / 2) * (exp(x) + 1). torch.onnx's gives 0 for 1e-9."""
    half = op.Tanh(op.Mul(x, constant(0.5, dtype)))
    return op.Mul(half, op.Add(op.Exp(x), constant(1.0, dtype)))


def _log_sigmoid(x: Any, dtype: ir.DataType) -> Any:
    """Return log(sigmoid(x)) as -softplus(-x). torch.onnx's gives -infinity for -20: ONNX Runtime's sigmoid is 0."""
    return op.Neg(_softplus(op.Neg(x), dtype))


def _softplus(x: Any, dtype: ir.DataType) -> Any:
    """Return log(1 + exp(x)); ONNX Runtime has no `Softplus` of float64."""
    if dtype != _DOUBLE:
        return op.Softplus(x)
    positive = op.Max(x, constant(0.0, dtype))
    return op.Add(positive, _log1p(op.Exp(op.Neg(op.Abs(x))), dtype))


def _logaddexp(self: Any, other: Any, dtype: ir.DataType) -> Any:
    """Return log(exp(a) + exp(b)), as the larger plus what the smaller adds. torch.onnx's overflows from 89 on."""
    return _logaddexp_of(self, other, 1.0, dtype)


def _logaddexp2(self: Any, other: Any, dtype: ir.DataType) -> Any:
    """Return log2(2**a + 2**b); see `_logaddexp`."""
    return _logaddexp_of(self, other, math.log(2), dtype)


def _logaddexp_of(self: Any, other: Any, log_of_base: float, dtype: ir.DataType) -> Any:
    distance = op.Abs(op.Sub(self, other))
    exponent = op.Mul(distance, constant(-log_of_base, dtype))
    added = op.Mul(_softplus(exponent, dtype), constant(1 / log_of_base, dtype))
    # Two equal infinities have no distance.
    twice = constant(math.log(2) / log_of_base, dtype)
    return op.Add(op.Max(self, other), op.Where(op.Equal(self, other), twice, added))


def _xlogy(self: Any, other: Any, dtype: ir.DataType) -> Any:
    """Return x * log(y), 0 where x is 0 and y is a number. torch.onnx's gives 0 for a y of NaN."""
    zero = constant(0.0, dtype)
    none = op.And(op.Equal(self, zero), op.Not(op.IsNaN(other)))
    return op.Where(none, zero, op.Mul(self, op.Log(other)))


def _sinc(x: Any, dtype: ir.DataType) -> Any:
    """Return sin(pi x) / (pi x). torch.onnx's has pi in float32 or, for float16 numbers, in float16."""
    angle = op.Mul(x, constant(math.pi, dtype))
    one = constant(1.0, dtype)
    return op.Where(op.Equal(x, constant(0.0, dtype)), one, op.Div(op.Sin(angle), angle))


def erfcx(self: Any) -> Any:
    """Refuse: torch.onnx multiplies exp(x**2), which overflows, by 1 - erf(x), which cancels."""
    raise NoExactTranslationError(
        "ONNX has no erfcx, and exp(x**2) * (1 - erf(x)) is wrong by 7 % at 3.7 and NaN from 10 on"
    )


def celu(self: Any, alpha: float = 1.0) -> Any:
    """Return x or alpha * expm1(x / alpha). torch.onnx's computes float64 in float32."""
    if self.dtype != _DOUBLE:
        return NotImplemented
    scale = constant(alpha, _DOUBLE)
    below = op.Mul(scale, _expm1(op.Div(self, scale), _DOUBLE))
    return op.Where(op.Greater(self, constant(0.0, _DOUBLE)), self, below)


def gelu(self: Any, approximate: str = "none") -> Any:
    """Return the approximation by tanh. ONNX Runtime's has the factors of float64 in float32."""
    if self.dtype != _DOUBLE or approximate != "tanh":
        return NotImplemented
    cube = op.Mul(op.Mul(op.Mul(self, self), self), constant(0.044715, _DOUBLE))
    inner = op.Mul(op.Add(self, cube), constant(math.sqrt(2 / math.pi), _DOUBLE))
    half = op.Mul(self, constant(0.5, _DOUBLE))
    return op.Mul(half, op.Add(op.Tanh(inner), constant(1.0, _DOUBLE)))


CONVERTERS: Converters = {
    aten.celu.default: celu,
    aten.expm1.default: _rounded_once(_expm1),
    aten.gelu.default: gelu,
    aten.log1p.default: _rounded_once(_log1p),
    aten.log_sigmoid.default: _rounded_once(_log_sigmoid),
    aten.logaddexp.default: _rounded_once(_logaddexp),
    aten.logaddexp2.default: _rounded_once(_logaddexp2),
    aten.sinc.default: _rounded_once(_sinc),
    aten.special_erfcx.default: erfcx,
    aten.special_expm1.default: _rounded_once(_expm1),
    aten.special_sinc.default: _rounded_once(_sinc),
    aten.xlogy.Scalar_Other: _rounded_once(_xlogy),
    aten.xlogy.Scalar_Self: _rounded_once(_xlogy),
    aten.xlogy.Tensor: _rounded_once(_xlogy),
}
