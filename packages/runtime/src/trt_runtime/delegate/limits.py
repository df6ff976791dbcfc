"""Which sizes the inputs of a method may have, where trt-export wrote that down (from 0.4.0 on)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, slots=True)
class Limits:
    """The sizes that a dimension of an input may have.

    Attributes:
        least: the smallest size.
        most: the largest size.
        multiple: a size is an integer times this, plus `offset`.
        offset: smaller than `multiple`.
        expression: dimensions with the same expression have the same size; empty for a static one.

    """

    least: int
    most: int
    multiple: int = 1
    offset: int = 0
    expression: str = ""

    def allows(self, size: int) -> bool:
        """Whether a size is one of them."""
        return self.least <= size <= self.most and size % self.multiple == self.offset

    def __str__(self) -> str:
        if self.least == self.most:
            return str(self.least)
        text = f"{self.least} to {self.most}"
        if self.multiple > 1:
            text += f", a multiple of {self.multiple}"
        return f"{text} plus {self.offset}" if self.offset else text


InputLimits = tuple[tuple[Limits, ...] | None, ...]


def read_limits(value: Any) -> InputLimits:
    """Read what trt-export wrote of one method: for each input a list of sizes, or None.

    Raises:
        TypeError, ValueError: it is of another form.

    """
    return tuple(None if sizes is None else tuple(map(_read_one, sizes)) for sizes in value)


def _read_one(value: Any) -> Limits:
    if type(value) is int:
        value = [value, value, 1, 0, ""]
    *numbers, expression = value
    least, most, multiple, offset = numbers
    if not all(type(number) is int for number in numbers) or type(expression) is not str:
        raise TypeError
    if not (0 <= least <= most and 0 <= offset < multiple):
        raise ValueError
    return Limits(least, most, multiple, offset, expression)


def refusals(limits: InputLimits, inputs: Sequence[Any]) -> Iterator[tuple[int, str]]:
    """Yield inputs whose sizes are not allowed, with the reason. The inputs have the rank that they must have."""
    first: dict[str, tuple[int, int, int]] = {}
    for index, (allowed, value) in enumerate(zip(limits, inputs, strict=True)):
        if allowed is None or not isinstance(value, torch.Tensor):
            continue
        for dimension, (one, size) in enumerate(zip(allowed, value.shape, strict=True)):
            if not one.allows(size):
                yield (
                    index,
                    f"expected {one} in dimension {dimension}, found {size}; pass a size that the program was "
                    "exported for",
                )
            other, there, expected = first.setdefault(one.expression, (index, dimension, size))
            if one.expression and size != expected:
                yield (
                    index,
                    f"expected {expected} in dimension {dimension}, as in dimension {there} of input {other}, found "
                    f"{size}; pass inputs whose sizes belong together",
                )
