"""Complex numbers: ONNX has none, so inside an engine a complex tensor is a real one with real and imaginary part last.

torch.onnx does the same, for few operators and not always right. What only moves numbers, or works on each part by
itself, is done here by its converter for real tensors, once for each part.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch._ops import OpOverload

from trt_export.compiling.converters.values import (
    Converter,
    NoExactTranslationError,
    Wrappers,
    constant,
    op,
)

aten = torch.ops.aten

_INT64 = ir.DataType.INT64
_COMPONENTS = {
    ir.DataType.COMPLEX64: ir.DataType.FLOAT,
    ir.DataType.COMPLEX128: ir.DataType.DOUBLE,
}


def part(pair: Any, position: int) -> Any:
    """Return the real (0) or the imaginary part (1)."""
    taken = op.Gather(pair, constant(position, _INT64), axis=-1)
    if pair.shape is not None:
        taken.shape = ir.Shape(list(pair.shape)[:-1])
    taken.dtype = pair.dtype
    return taken


def parts(pair: Any, dtype: ir.DataType | None = None) -> tuple[Any, Any]:
    """Return both parts of a pair, or of a Python number, which is in `dtype`."""
    if isinstance(pair, (bool, int, float, complex)):
        assert dtype is not None
        number = complex(pair)
        return constant(number.real, dtype), constant(number.imag, dtype)
    return part(pair, 0), part(pair, 1)


def joined(real: Any, imaginary: Any) -> Any:
    """Return the pair of two parts of the same shape."""
    last = constant([-1], _INT64)
    return op.Concat(op.Unsqueeze(real, last), op.Unsqueeze(imaginary, last), axis=-1)


def with_zero(real: Any) -> Any:
    """Return a real tensor as a complex one."""
    # Not a product with 0, which is NaN where the real part is infinite.
    return joined(real, op.Expand(constant(0.0, real.dtype), op.Shape(real)))


def by_parts(real: Converter, complex_arguments: Sequence[int] = (0,)) -> Converter:
    """Return a converter that uses the one for real tensors once for each part of the arguments at these positions."""

    def convert(*args: Any, **kwargs: Any) -> Any:
        def of(position: int) -> Any:
            return [
                _part_of(value, position) if number in complex_arguments else value
                for number, value in enumerate(args)
            ]

        return joined(real(*of(0), **kwargs), real(*of(1), **kwargs))

    return convert


def _part_of(value: Any, position: int) -> Any:
    if isinstance(value, (list, tuple)):
        return [part(each, position) for each in value]
    return part(value, position) if isinstance(value, ir.Value) else parts(value)[position]


def _multiply(self: Any, other: Any) -> Any:
    dtype = self.dtype if isinstance(self, ir.Value) else other.dtype
    (a, b), (c, d) = parts(self, dtype), parts(other, dtype)
    real = op.Sub(op.Mul(a, c), op.Mul(b, d))
    return joined(real, op.Add(op.Mul(a, d), op.Mul(b, c)))


def _divide(self: Any, other: Any) -> Any:
    dtype = self.dtype if isinstance(self, ir.Value) else other.dtype
    (a, b), (c, d) = parts(self, dtype), parts(other, dtype)
    # Divided by the larger part first, as PyTorch does: squares overflow.
    scale = op.Max(op.Abs(c), op.Abs(d))
    c, d = op.Div(c, scale), op.Div(d, scale)
    length = op.Mul(op.Add(op.Mul(c, c), op.Mul(d, d)), scale)
    real = op.Div(op.Add(op.Mul(a, c), op.Mul(b, d)), length)
    return joined(real, op.Div(op.Sub(op.Mul(b, c), op.Mul(a, d)), length))


def _product(self: Any, other: Any) -> Any:
    (a, b), (c, d) = parts(self), parts(other)
    real = op.Sub(op.MatMul(a, c), op.MatMul(b, d))
    return joined(real, op.Add(op.MatMul(a, d), op.MatMul(b, c)))


def _summed(equation: str, tensors: Sequence[Any], path: Any = None) -> Any:
    """Translate `einsum`; of two tensors, since a product of more has more than two terms."""
    if len(tensors) == 1:
        real, imaginary = parts(tensors[0])
        return joined(op.Einsum(real, equation=equation), op.Einsum(imaginary, equation=equation))
    if len(tensors) != 2:
        raise NoExactTranslationError(f"it is an einsum of {len(tensors)} complex tensors, not 2")
    (a, b), (c, d) = parts(tensors[0]), parts(tensors[1])

    def product(one: Any, other: Any) -> Any:
        return op.Einsum(one, other, equation=equation)

    real = op.Sub(product(a, c), product(b, d))
    return joined(real, op.Add(product(a, d), product(b, c)))


def _exponential(self: Any) -> Any:
    real, imaginary = parts(self)
    length = op.Exp(real)
    return joined(op.Mul(length, op.Cos(imaginary)), op.Mul(length, op.Sin(imaginary)))


def _conjugate(self: Any) -> Any:
    real, imaginary = parts(self)
    return joined(real, op.Neg(imaginary))


def _negative(self: Any) -> Any:
    return op.Neg(self)


def _identity(self: Any, **_: Any) -> Any:
    return op.Identity(self)


def _converted(self: Any, dtype: int = -1, **_: Any) -> Any:
    """Convert a complex tensor; to a real dtype it gives the real part."""
    if dtype == -1:
        return op.Identity(self)
    to = ir.DataType(dtype)
    if to in _COMPONENTS:
        return op.Cast(self, to=_COMPONENTS[to])
    return op.Cast(part(self, 0), to=to)


PAIRS: Mapping[OpOverload, Converter] = {
    aten.mul.Tensor: _multiply,
    aten.mul.Scalar: _multiply,
    aten.div.Tensor: _divide,
    aten.div.Scalar: _divide,
    aten.mm.default: _product,
    aten.bmm.default: _product,
    aten.matmul.default: _product,
    aten.einsum.default: _summed,
    aten.exp.default: _exponential,
    aten.conj.default: _conjugate,
    aten._conj.default: _conjugate,
    aten.neg.default: _negative,
    aten.clone.default: _identity,
    aten.alias.default: _identity,
    aten.resolve_conj.default: _identity,
    aten.resolve_neg.default: _identity,
    aten.view_as_real.default: _identity,
    aten._to_copy.default: _converted,
    torch.ops.prims.convert_element_type.default: _converted,
}
"""Converters of calls with complex arguments."""

BY_PARTS: Mapping[OpOverload, Sequence[int]] = {
    **dict.fromkeys(
        (
            aten.add.Tensor,
            aten.sub.Tensor,
            aten.select_scatter.default,
            aten.slice_scatter.default,
        ),
        (0, 1),
    ),
    **dict.fromkeys((aten.where.self,), (1, 2)),
    aten.index_put.default: (0, 2),
    **dict.fromkeys(
        (
            aten.cat.default,
            aten.constant_pad_nd.default,
            aten.cumsum.default,
            aten.expand.default,
            aten.flip.default,
            aten.gather.default,
            aten.index.Tensor,
            aten.index_select.default,
            aten.mean.dim,
            aten.permute.default,
            aten.repeat.default,
            aten.reshape.default,
            aten.roll.default,
            aten.select.int,
            aten.slice.Tensor,
            aten.squeeze.default,
            aten.squeeze.dim,
            aten.squeeze.dims,
            aten.stack.default,
            aten.sum.default,
            aten.sum.dim_IntList,
            aten.t.default,
            aten.transpose.int,
            aten.unsqueeze.default,
            aten.view.default,
            aten._unsafe_view.default,
        ),
        (0,),
    ),
}
"""Calls whose converter for real tensors serves both parts; the positions of their complex arguments."""


def made_complex(upstream: Converter) -> Converter:
    """Return a converter of an operator that makes complex tensors of real ones if its `dtype` says so."""

    def convert(*args: Any, **kwargs: Any) -> Any:
        dtype = kwargs.get("dtype")
        if dtype is None and len(args) == 2 and isinstance(args[1], int):
            dtype, args = args[1], args[:1]  # `convert_element_type`
            if ir.DataType(dtype) not in _COMPONENTS:
                return upstream(*args, dtype)
        if dtype is None or dtype == -1 or ir.DataType(dtype) not in _COMPONENTS:
            return upstream(*args, **kwargs)
        component = _COMPONENTS[ir.DataType(dtype)]
        if isinstance(args[0], complex):
            return joined(*parts(args[0], component))
        result = upstream(*args, **{**kwargs, "dtype": int(component)})
        result.dtype = component
        return with_zero(result)

    return convert


WRAPPERS: Wrappers = dict.fromkeys(
    (
        aten._to_copy.default,
        torch.ops.prims.convert_element_type.default,
        aten.full.default,
        aten.zeros.default,
        aten.ones.default,
        aten.scalar_tensor.default,
    ),
    made_complex,
)
