"""Comparisons of integers with a tolerance."""

from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import Converters, constant, op

aten = torch.ops.aten


def isclose(
    self: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Return whether numbers are close. torch.onnx's makes integers of the tolerances: 1e-5 is 0 there."""
    if not self.dtype.is_integer():
        return NotImplemented
    used = ir.DataType.FLOAT  # as in PyTorch
    error = op.Abs(op.Cast(op.Sub(self, other), to=used))
    scaled = op.Abs(op.Mul(op.Cast(other, to=used), constant(rtol, used)))
    within = op.LessOrEqual(error, op.Add(scaled, constant(atol, used)))
    return op.Or(op.Equal(self, other), within)


CONVERTERS: Converters = {aten.isclose.default: isclose}
