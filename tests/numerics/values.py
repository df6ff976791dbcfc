"""The numbers that every operator is tried with, by dtype."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor

INF, NAN = float("inf"), float("nan")
DTYPES = (
    *(torch.float32, torch.float64, torch.float16),
    *(torch.int32, torch.int64, torch.bool),
)


@dataclass(frozen=True)
class Values:
    """Inputs of one dtype. The first dimension counts samples, except that of `few` and `empty`.

    `x` has a number a sample, `positive` those that are not negative; `a` and `b` have all pairs of some, and no
    sample of `divisor` is an integer 0 or makes the smallest integer overflow; `rows` has four numbers a sample.
    `few` is one row of ordinary numbers, `nan_row` and `large_row` one of others, `empty` has the shape [2, 0].
    """

    x: Tensor
    a: Tensor
    b: Tensor
    divisor: Tensor
    exponent: Tensor
    bits: Tensor
    rows: Tensor
    few: Tensor
    nan_row: Tensor
    large_row: Tensor
    empty: Tensor
    mask: Tensor
    index: Tensor

    def tensors(self) -> tuple[Tensor, ...]:
        """Return all of them, in the order of the fields."""
        return tuple(getattr(self, field.name) for field in fields(self))


def values(dtype: torch.dtype) -> Values:
    """Return the inputs of a dtype."""
    if dtype == torch.bool:
        numbers, some, rows = _bools()
    elif dtype.is_floating_point:
        numbers, some, rows = _floats(dtype)
    else:
        numbers, some, rows = _integers(dtype)
    count = len(some)
    b = torch.tensor(some, dtype=dtype).repeat(count)
    a = torch.tensor(some, dtype=dtype).repeat_interleave(count)
    rows_tensor = torch.tensor(rows, dtype=dtype)
    special = 2 if dtype.is_floating_point else 0
    return Values(
        x=torch.tensor(numbers, dtype=dtype),
        a=a,
        b=b,
        divisor=b if dtype.is_floating_point else _divisors(a, b),
        exponent=b.clamp(-3, 3) if dtype.is_floating_point else b != 0,
        bits=b.clamp(0, 5) if dtype not in (torch.bool,) else b,
        rows=rows_tensor,
        few=rows_tensor[0].clone(),
        nan_row=rows_tensor[special].clone(),
        large_row=rows_tensor[-1].clone(),
        empty=torch.zeros(2, 0, dtype=dtype),
        mask=torch.tensor([[True, False, True, False]]).expand(len(rows), 4).clone(),
        index=torch.tensor([[3, 1, 1, 0]]).expand(len(rows), 4).clone(),
    )


def _divisors(a: Tensor, b: Tensor) -> Tensor:
    # PyTorch raises for a division by 0, and ends the process where the smallest integer is divided by -1.
    one = torch.ones_like(b)
    refused = b == 0
    if b.dtype != torch.bool:
        refused |= (b == -1) & (a == torch.iinfo(b.dtype).min)
    return torch.where(refused, one, b)


def _floats(dtype: torch.dtype) -> tuple[list[float], list[float], list[list[float]]]:
    limits = torch.finfo(dtype)
    huge, tiny = limits.max, limits.tiny
    some = [0.0, -0.0, INF, -INF, NAN, 1.0, -1.0, 2.5, -3.0, huge, tiny / 4]
    numbers = [
        *some,
        *(-huge, tiny, -tiny / 4, 0.5, -0.5, 1.5, -1.5, -2.5, 0.3, -0.7, 3.7, 20.0, -20.0),
        *(1e-4, -1e-4, 100.0, -100.0, 1 + limits.eps),
    ]
    rows = [
        *([1.0, 2.0, 3.0, 4.0], [NAN, 1.0, 2.0, 3.0], [1.0, 2.0, 3.0, NAN], [NAN, NAN, NAN, NAN]),
        *([INF, 1.0, 2.0, 3.0], [-INF, 1.0, 2.0, 3.0], [INF, INF, 1.0, 2.0], [INF, -INF, 1.0, 2.0]),
        *([-INF, -INF, -INF, -INF], [0.0, -0.0, 0.0, -0.0], [-0.0, -0.0, -0.0, -0.0]),
        *([2.0, 2.0, 1.0, 1.0], [-3.0, -2.0, -1.0, -5.0], [tiny / 4, tiny / 4, 0.0, 0.0]),
        *([huge, huge, 1.0, 1.0], [huge, -huge, huge, -huge]),
    ]
    return numbers, some, rows


def _integers(dtype: torch.dtype) -> tuple[list[int], list[int], list[list[int]]]:
    limits = torch.iinfo(dtype)
    low, high = limits.min, limits.max
    exact = [2**24 + 1] if dtype == torch.int32 else [2**24 + 1, 2**53 + 1, 2**60 + 1]
    large = exact[-1]
    some = [0, 1, -1, 2, 7, -7, large, large + 1, high, low]
    numbers = [*some, -2, 3, *exact[:-1], -large, high - 1, low + 1]
    rows = [
        *([1, 2, 3, 4], [2, 2, 1, 1], [-3, -2, -1, -5], [0, 0, 0, 0], [-1, 1, -1, 1]),
        *([large, large - 1, 1, 2], [large, large, large, large], [high, low, 0, 1]),
        *([low, low, -1, -1], [high, high, 1, 1]),
    ]
    return numbers, some, rows


def _bools() -> tuple[list[bool], list[bool], list[list[bool]]]:
    some = [False, True]
    rows = [[True, False, True, True], [False] * 4, [True] * 4]
    return some, some, rows
