"""Reductions without dimensions are in engines and right; torch.onnx's translations fail or give another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from trt_export.compiling import CompileReport, compile

Function = Callable[[Tensor], Any]


class Module(nn.Module):
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:
        return self.function(x)


def check(function: Function, x: Tensor, *others: Tensor, shapes: Any = None) -> None:
    """Compile a function whole, and compare it with PyTorch on all values."""
    reports: list[CompileReport] = []
    program = export(Module(function), (x,), dynamic_shapes=shapes)
    run = compile(program, on_report=reports.append).module()
    assert reports[0].left_in_pytorch == ()
    for value in (x, *others):
        torch.testing.assert_close(run(value), function(value), equal_nan=True)


FUNCTIONS: dict[str, Function] = {
    "amax": lambda x: x.amax(),
    "amax, dims kept": lambda x: x.amax(keepdim=True),
    "amax over one": lambda x: x.amax(-1),
    "amin over the first": lambda x: x.amin(0),
    "amin": lambda x: x.amin(),
    "amin over none": lambda x: x.amin(dim=()),
    "aminmax": lambda x: tuple(torch.aminmax(x)),
    "any over none": lambda x: x.any(dim=()),
    "all over none": lambda x: x.all(dim=(), keepdim=True),
    "any over all": lambda x: x.any(dim=(0, 1)),
}
POSITIONS: dict[str, Function] = {
    "argmax": lambda x: x.argmax(keepdim=True),
    "argmin": lambda x: x.argmin(keepdim=True),
    "argmax flat": lambda x: x.argmax(),
}
MEANS: dict[str, Function] = {
    "mean": lambda x: x.mean(dim=None),
    "mean, dims kept": lambda x: x.mean(dim=None, keepdim=True),
    "mean in float64": lambda x: x.mean(dim=None, dtype=torch.float64),
}
VALUES = torch.tensor([[1, -3, 0, 2], [0, 0, 0, 0], [5, 2, -7, 5]])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int32, torch.uint8, torch.bool], ids=str
)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_no_dimension_means_all(name: str, dtype: torch.dtype) -> None:
    check(FUNCTIONS[name], VALUES.to(dtype), VALUES.flip(0).to(dtype), (VALUES * 0).to(dtype))


@pytest.mark.parametrize("name", [*POSITIONS, *MEANS])
def test_positions_and_means_have_the_shape_of_pytorch(name: str) -> None:
    check((POSITIONS | MEANS)[name], VALUES.float(), -VALUES.float())


@pytest.mark.parametrize("name", ["amax", "amin, dims kept", "mean", "argmax"])
def test_dimensions_may_be_dynamic(name: str) -> None:
    functions = FUNCTIONS | MEANS | POSITIONS | {"amin, dims kept": lambda x: x.amin(keepdim=True)}
    rows = {0: Dim("rows", min=1, max=8)}
    check(functions[name], VALUES.float(), VALUES[:1].float(), shapes=(rows,))


@pytest.mark.filterwarnings("ignore:var\\(\\). degrees of freedom is:UserWarning")
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x[0, 0].amax() + 1,
        lambda x: x[0, 0].amin() + 1,
        lambda x: x[0, 0].mean(dim=None) + 1,
        lambda x: x[0, 0].argmax(keepdim=True) + 1,
        lambda x: x[0, 0].var() + x,
        lambda x: x[0, 0].var(correction=0) + x,
        lambda x: x[0, 0].std(correction=0) + x,
    ],
)
def test_one_number_has_no_dimension_to_reduce(function: Function) -> None:
    check(function, VALUES.float(), -VALUES.float())
