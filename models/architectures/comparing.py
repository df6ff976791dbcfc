"""Compare outputs of a model with those of eager PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

_SIGNAL = 1e-2
"""Outputs below it count as zero: errors are relative to at least this."""


def require_signal(outputs: Sequence[Sequence[Any]]) -> None:
    """Refuse a model whose outputs show no error.

    Raises:
        ValueError: no floating-point output has a number of at least `_SIGNAL`, or all its numbers are the same.
    """
    floating = [
        value.double()
        for values in outputs
        for value in values
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
    ]
    largest = max((float(value.nan_to_num(0, 0, 0).abs().max()) for value in floating), default=0.0)
    spread = max(
        (float(value.nan_to_num(0, 0, 0).std(correction=0)) for value in floating), default=0.0
    )
    if largest < _SIGNAL or spread < _SIGNAL * largest:
        raise ValueError(
            f"expected outputs of at least {_SIGNAL:g} that are not all the same, found at most {largest:g} with a "
            f"standard deviation of {spread:g}; give the model other weights"
        )


def largest_error(expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """Return the largest difference over all calls, relative to the largest number of each output.

    Raises:
        ValueError: number, shape or dtype of outputs differ, or one has NaN where the other does not.
    """
    largest = 0.0
    for one, other in zip(expected, found, strict=True):
        tensors = [value for value in one if isinstance(value, torch.Tensor)]
        others = [value for value in other if isinstance(value, torch.Tensor)]
        if _kinds(tensors) != _kinds(others):
            raise ValueError(f"expected outputs {_kinds(tensors)}, found {_kinds(others)}")
        for want, got in zip(tensors, others, strict=True):
            largest = max(largest, _error(want, got))
    return largest


def _kinds(tensors: Sequence[torch.Tensor]) -> list[str]:
    return [f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors]


def _error(want: torch.Tensor, got: torch.Tensor) -> float:
    want, got = want.double(), got.double()
    if not torch.equal(want.isnan(), got.isnan()):
        raise ValueError("expected NaN where PyTorch has NaN, found it elsewhere")
    if not want.numel():
        return 0.0
    scale = max(_SIGNAL, float(want.nan_to_num(0, 0, 0).abs().max()))
    # Equal infinities have no difference.
    difference = torch.where(want == got, 0.0, want - got).nan_to_num(0)
    return float(difference.abs().max()) / scale
