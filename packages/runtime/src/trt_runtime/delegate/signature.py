"""What a method of a `.pte` takes, as its flatbuffer says, and why values do not fit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from .dtypes import PROGRAM_DTYPES
from .flatbuffer import Table

# The positions in `union KernelTypes` of ExecuTorch's schema/program.fbs.
_NULL, _INT, _BOOL, _DOUBLE, _TENSOR = 1, 2, 3, 4, 5
_STATIC = 0


@dataclass(frozen=True, slots=True)
class Value:
    """An input of a method. Of a kind that is not known here, only `kind` is set."""

    kind: int
    constant: float | None = None  # a number is baked in when the program is made
    dtype: torch.dtype | None = None
    sizes: tuple[int, ...] = ()  # the largest ones, if they may change
    is_static: bool = True

    def refusal(self, value: Any) -> str | None:
        """Say what was expected, what is found and what mends it, if ExecuTorch does not take the value."""
        if self.kind == _TENSOR:
            return self._refuse_for_tensor(value)
        if self.kind == _NULL:
            return None if value is None else f"expected None, found {_kind(value)}; pass None"
        if self.kind in (_INT, _BOOL, _DOUBLE):
            wanted = {_INT: int, _BOOL: bool, _DOUBLE: float}[self.kind]
            if type(value) is wanted and value == self.constant:
                return None
            return (
                f"expected the {wanted.__name__} {self.constant!r}, which is baked into the program, found "
                f"{_kind(value)}{f' {value!r}' if isinstance(value, (int, float)) else ''}; pass that one, or export "
                "the program with a tensor in its place"
            )
        return None

    def _refuse_for_tensor(self, value: Any) -> str | None:
        if not isinstance(value, torch.Tensor):
            return f"expected a tensor {self._text()}, found {_kind(value)}; pass a tensor"
        if self.dtype is not None and value.dtype != self.dtype:
            return (
                f"expected dtype {self.dtype}, found {value.dtype}; convert it: .to({self.dtype})"
            )
        sizes = list(value.shape)
        if len(sizes) != len(self.sizes):
            return f"expected rank {len(self.sizes)} ({self._text()}), found rank {len(sizes)} ({sizes}); reshape it"
        if self.is_static and tuple(sizes) != self.sizes:
            return (
                f"expected the sizes {list(self.sizes)}, found {sizes}; reshape it, or export the program with "
                "dynamic shapes"
            )
        if value.numel() > math.prod(self.sizes):
            return (
                f"expected {self._text()}, found {sizes}; pass less at once, or export the program for larger "
                "sizes"
            )
        return None

    def _text(self) -> str:
        return f"of sizes {'' if self.is_static else 'up to '}{list(self.sizes)}"


def read_value(value: Table) -> Value:
    """Read an `EValue`; raises what reading tables raises."""
    kind = value.int8(0)
    if kind not in (_INT, _BOOL, _DOUBLE, _TENSOR):
        return Value(kind)
    table = value.table(1)
    if kind == _INT:
        return Value(kind, constant=table.int64(0))
    if kind == _BOOL:
        return Value(kind, constant=bool(table.int8(0)))
    if kind == _DOUBLE:
        return Value(kind, constant=table.float64(0))
    dtype = PROGRAM_DTYPES.get(table.int8(0))
    return Value(kind, dtype=dtype, sizes=table.int32s(2), is_static=table.int8(8) == _STATIC)


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
