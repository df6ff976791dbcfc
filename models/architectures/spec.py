"""What one row of the table is: how to make the model, its inputs, and which of their sizes may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.utils.parametrize

_Convolution = (
    torch.nn.Conv1d,
    torch.nn.Conv2d,
    torch.nn.ConvTranspose1d,
    torch.nn.ConvTranspose2d,
)
_BatchNorm = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d)

Sizes = Mapping[str, int]
"""The size of each dynamic dimension, by its name."""


@dataclass(frozen=True)
class Range:
    """The sizes that a dynamic dimension may have; the program is exported with `opt`."""

    min: int
    opt: int
    max: int


@dataclass(frozen=True)
class Model:
    """One architecture.

    `make` returns the module in eval mode; the caller has seeded torch. `inputs` returns the keyword arguments of
    `forward` for given sizes. `dynamic` says which dimensions of which argument have which name, as
    `{"input_ids": {0: "batch", 1: "length"}}`; `ranges` has the sizes of each name. `tolerance` bounds the largest
    difference from eager PyTorch, relative to the largest number of the output.
    """

    name: str
    family: str
    make: Callable[[], torch.nn.Module]
    inputs: Callable[[Sizes], dict[str, Any]]
    dynamic: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    tolerance: float = 1e-4
    strict: bool = False
    """How it is exported; transformers' static caches need True."""
    in_tests: bool = False
    """Whether it is one of those that the tests run."""

    def sizes(self) -> list[dict[str, int]]:
        """Return the sizes to compare at: what it was exported with, then both ends of every range."""
        if not self.ranges:
            return [{}]
        return [
            {name: getattr(span, end) for name, span in self.ranges.items()}
            for end in ("opt", "min", "max")
        ]


def integers(low: int, high: int, *shape: int, seed: int = 0) -> torch.Tensor:
    """Return int64 numbers from `low` up to, not including, `high`; the same for the same arguments."""
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def floats(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Return normally distributed numbers; the same for the same arguments."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def spread(module: torch.nn.Module) -> torch.nn.Module:
    """Draw weights of convolutions and statistics of normalizations with which numbers keep their size.

    Those of an initialization for training shrink from layer to layer: a small EfficientNet computes zeros, on which
    every engine is right.
    """
    for layer in module.modules():
        if isinstance(layer, _Convolution) and not torch.nn.utils.parametrize.is_parametrized(
            layer
        ):
            torch.nn.init.kaiming_normal_(layer.weight)
        elif isinstance(layer, _BatchNorm):
            for tensor in (layer.weight, layer.running_var):
                if tensor is not None:
                    torch.nn.init.uniform_(tensor, 0.5, 1.5)
            for tensor in (layer.bias, layer.running_mean):
                if tensor is not None:
                    torch.nn.init.normal_(tensor, std=0.1)
    return module
