"""What all converters need: ONNX operators of the opset in use, constants of a stated dtype."""

from collections.abc import Callable, Mapping
from typing import Any

import onnx_ir as ir
from onnxscript import opset20
from torch._ops import OpOverload

# Typed as Any: onnxscript types operators by tensors of its own, and converters pass `ir.Value`s.
op: Any = opset20

Converter = Callable[..., Any]
Converters = Mapping[OpOverload, Converter]
Wrappers = Mapping[OpOverload, Callable[[Converter], Converter]]

NARROW_FLOATS = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
"""Computed in float32 and rounded once, as PyTorch does, where an operator takes several steps."""


class NoExactTranslationError(Exception):
    """No ONNX operators compute what PyTorch computes; the message is the reason to leave a node in PyTorch."""


def constant(value: Any, dtype: ir.DataType) -> Any:
    """Return a constant of exactly this dtype; torch.onnx makes float32 or int64 of a Python number and casts it."""
    return op.Constant(value=ir.tensor(value, dtype=dtype))


def known(value: Any) -> Any:
    """Return the one number of a constant, or None: of a value that is known only when the engine runs."""
    if isinstance(value, (bool, int, float)):
        return value
    if (
        isinstance(value, ir.Value)
        and (tensor := ir.convenience.get_const_tensor(value)) is not None
    ):
        return tensor.numpy().item() if tensor.size == 1 else None
    return None


def like(value: Any, dtype: ir.DataType) -> Any:
    """Return a value as it is, a Python number as a constant of the dtype."""
    return constant(value, dtype) if isinstance(value, (bool, int, float)) else value


def cast(value: Any, dtype: ir.DataType) -> Any:
    """Convert a value whose dtype is known; no operator if it has that dtype already."""
    return value if value.dtype == dtype else op.Cast(value, to=dtype)
