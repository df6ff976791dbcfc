"""Keeps the initial values of state that a compiled program mutates.

`program.module()` shares its buffers with the program (torch 2.13), so running it changes them. The values that the
program was compiled with are therefore kept beside them, as constants that no graph refers to: `torch.export.save` and
`load`, `copy.deepcopy` and `run_decompositions` keep those. A buffer of one value throughout, such as the zeros of a KV
cache, costs one number; any other costs its size once more.
"""

from collections.abc import Mapping
from typing import Any

import torch

_PREFIX = "trt_export.initial_value."


def initial_values(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the constants that keep the values of `state`."""
    return {f"{_PREFIX}{name}": _compact(value.detach()) for name, value in state.items()}


def restore_initial_values(state: dict[str, Any], constants: dict[str, Any]) -> None:
    """Put the kept values back where they have changed, and remove the constants that keep them; edits in place."""
    for key in [key for key in constants if key.startswith(_PREFIX)]:
        name, kept = key.removeprefix(_PREFIX), constants.pop(key)
        for place in (state, constants):
            current = place.get(name)
            if not isinstance(current, torch.Tensor) or _is_same(current, kept):
                continue
            initial = kept.detach().expand(current.shape).clone()
            place[name] = (
                torch.nn.Parameter(initial, requires_grad=False)
                if isinstance(current, torch.nn.Parameter)
                else initial
            )


def _compact(value: torch.Tensor) -> torch.Tensor:
    """One number for a tensor whose elements all have the same bits, else a copy."""
    if value.numel() > 1 and value.layout == torch.strided and not value.is_quantized:
        first = value[(0,) * value.dim()].clone()
        if _is_same(value, first):
            return first
    return value.clone()


def _is_same(value: torch.Tensor, kept: torch.Tensor) -> bool:
    """Whether the elements are equal; -0.0 and NaN are compared by their sign and kind."""
    kept = kept.expand(value.shape)
    if not value.is_floating_point() or value.itemsize == 1:
        return bool((value == kept).all())
    same = (value == kept) | (value.isnan() & kept.isnan())
    return bool((same & (value.signbit() == kept.signbit())).all())
