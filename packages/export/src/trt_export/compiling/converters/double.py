"""Python numbers in float64 programs: exact, or an error.

torch.onnx makes a float32 of every Python float whose dtype it does not know and converts that; and ONNX keeps the
floats that are attributes of an operator (the epsilon of a norm) as float32.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from onnxscript import evaluator
from onnxscript.values import OnnxFunction, Op

from trt_export.compiling.converters.values import Converter, NoExactTranslationError, constant

_DOUBLE = ir.DataType.DOUBLE


def exact_numbers(convert: Converter) -> Converter:
    """Return the converter, under an evaluator that rounds no Python float if the operator computes in float64."""

    @functools.wraps(convert)
    def exact(*args: Any, **kwargs: Any) -> Any:
        recorder = evaluator.default()
        if isinstance(recorder, _ExactNumbers) or not _computes_double(args, kwargs):
            return convert(*args, **kwargs)
        with evaluator.default_as(_ExactNumbers(recorder)):
            return convert(*args, **kwargs)

    return exact


def _computes_double(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("dtype") == _DOUBLE or any(
        _is_double(value) for value in (*args, *kwargs.values())
    )


def _is_double(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_is_double(one) for one in value)
    return isinstance(value, ir.Value) and value.dtype == _DOUBLE


class _ExactNumbers(evaluator.Evaluator):  # type: ignore[misc]  # it is Any for mypy
    """Makes constants of Python floats where the recorder behind it would round them."""

    def __init__(self, recorder: evaluator.Evaluator) -> None:
        self._recorder = recorder

    def eval_op(self, op: Op, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Record an operator.

        Raises:
            NoExactTranslationError: a float attribute is none in float32.
        """
        with evaluator.default_as(self._recorder):
            if op.name == "Constant":
                return op(*args, **_exact_constant(kwargs))
            _check_attributes(op.name, kwargs)
            if op.name == "Cast" and isinstance(args[0], float):
                return constant(args[0], ir.DataType(kwargs["to"]))
            if not any(isinstance(one, ir.Value) and one.dtype is not None for one in args):
                args = [_double(one) for one in args]
            elif op.name == "CastLike":
                args = [_double(args[0]), *args[1:]]
            return op(*args, **kwargs)

    def eval_function(
        self, function: OnnxFunction, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        """Record a function of onnxscript's library.

        Raises:
            NoExactTranslationError: a float attribute is none in float32.
        """
        signature = getattr(function, "_pt_onnx_signature", None) or function.op_signature
        inputs = {one.name for one in signature.params if isinstance(one, ir.schemas.Parameter)}
        names = [one.name for one in signature.params]
        args = [
            _double(one) if name in inputs else one for name, one in zip(names, args, strict=False)
        ]
        kwargs = {name: _double(one) if name in inputs else one for name, one in kwargs.items()}
        if not function.traceable:
            given = dict(zip(names, args, strict=False)) | kwargs
            _check_attributes(function.name, given)
        return self._recorder.eval_function(function, args, kwargs)


def _double(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    made = constant(value, _DOUBLE)
    made.dtype, made.shape = _DOUBLE, ir.Shape([])
    return made


def _exact_constant(attributes: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the attributes of `Constant`; floats that float32 has not as a float64 tensor."""
    for name in ("value_float", "value_floats"):
        given = attributes.get(name)
        if given is not None and not _in_float32(given):
            return {"value": ir.tensor(np.asarray(given, dtype=np.float64))}
    return attributes


def _check_attributes(name: str, attributes: Mapping[str, Any]) -> None:
    for attribute, value in attributes.items():
        if not _in_float32(value):
            raise NoExactTranslationError(
                f"ONNX keeps {attribute} of {name} in float32, which {value!r} is not exactly"
            )


def _in_float32(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return all(_in_float32(one) for one in value)
    if not isinstance(value, float) or value != value:
        return True
    with np.errstate(over="ignore"):
        return float(np.float32(value)) == value
