"""Clipping at one end: what is infinite at the other end stays infinite."""

from typing import Any

import torch

from trt_export.compiling.converters.values import Converters, like, op

aten = torch.ops.aten


def clamp(self: Any, min: float | None = None, max: float | None = None) -> Any:
    """Clip; see `clamp_max` and `clamp_min` for one end. Two ends are one `Clip`, as torch.onnx translates them."""
    if max is None and min is not None:
        return clamp_min(self, min)
    if min is None and max is not None:
        return clamp_max(self, max)
    return NotImplemented


def clamp_max(self: Any, max: Any) -> Any:
    """Clip from above. torch.onnx's `Clip` has the lowest finite number as its other end: -infinity becomes that."""
    return op.Min(self, like(max, self.dtype)) if _has_infinities(self) else NotImplemented


def clamp_min(self: Any, min: Any) -> Any:
    """Clip from below. torch.onnx's `Clip` has the largest finite number as its other end: infinity becomes that."""
    return op.Max(self, like(min, self.dtype)) if _has_infinities(self) else NotImplemented


def _has_infinities(value: Any) -> bool:
    return bool(value.dtype.is_floating_point())


CONVERTERS: Converters = {
    aten.clamp.default: clamp,
    aten.clamp_max.default: clamp_max,
    aten.clamp_max.Tensor: clamp_max,
    aten.clamp_min.default: clamp_min,
    aten.clamp_min.Tensor: clamp_min,
}
