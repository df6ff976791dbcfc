"""Programs that were exported with memory in another order of dimensions run on inputs in any order."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map_only

import trt_export
import trt_runtime
from lowering import MORE_WARNINGS

pytestmark = [pytest.mark.filterwarnings(warning) for warning in MORE_WARNINGS]


def last(*sizes: int) -> Tensor:
    """Random values with the channels last in memory."""
    memory_format = torch.channels_last if len(sizes) == 4 else torch.channels_last_3d
    return torch.randn(sizes).to(memory_format=memory_format)


class Tree(nn.Module):
    """Inputs in a tree, outputs in other orders; `remainder` of integers stays outside of the engine."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, inputs: dict[str, Any]) -> dict[str, Tensor]:
        a, (b,) = inputs["a"], inputs["b"]
        y = self.conv(a)
        bits = (b * 8).to(torch.int16).bitwise_and(3)
        return {
            "sum": y + b,
            "rows": b.permute(0, 2, 3, 1).view(-1, 3),
            "bits": bits,
            "bits, channels last": bits.to(memory_format=torch.channels_last),
            "bits in an engine": self.conv(bits.to(memory_format=torch.channels_last).float()),
            "channels last": y.to(memory_format=torch.channels_last),
        }


class State(nn.Module):
    """A mutated buffer and weights in and outside of an engine, all with the channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)
        self.register_buffer("state", last(2, 3, 4, 4))
        self.register_buffer("weight", last(2, 3, 4, 4))
        self.register_buffer("bits", (8 * last(2, 3, 4, 4)).to(torch.int16))

    def forward(self, x: Tensor) -> list[Tensor]:
        self.state.add_(self.conv(x))
        return [self.state + 1, self.weight * x, (self.bits & 3) + x]


class WritesInput(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.relu()
        x.add_(1)
        return y + x


class First(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return x, y @ y


CONV = nn.Conv2d(3, 4, 3)
BATCH = ({0: torch.export.Dim("batch", min=1, max=8)},)
CASES: dict[str, tuple[nn.Module, tuple[Any, ...], Any]] = {
    "conv": (CONV, (last(1, 3, 8, 8),), None),
    "weights too": (
        copy.deepcopy(CONV).to(memory_format=torch.channels_last),
        (last(2, 3, 8, 8),),
        None,
    ),  # type: ignore[call-overload]
    "dynamic": (CONV, (last(2, 3, 8, 8),), BATCH),
    "one channel": (nn.Conv2d(1, 4, 3), (last(1, 1, 8, 8),), None),
    "three dimensions": (nn.Conv3d(3, 4, 3), (last(1, 3, 5, 5, 5),), None),
    "transposed": (nn.Linear(4, 5), (torch.randn(4, 3).T,), None),
    "expanded": (First(), (torch.randn(1, 3).expand(4, 3), torch.randn(4, 4)), None),
    "every second": (First(), (torch.randn(4, 8)[:, ::2], torch.randn(4, 4)), None),
    "handed through": (First(), (last(2, 3, 4, 4), torch.randn(4, 4)), None),
    "tree": (Tree(), ({"a": last(2, 3, 4, 4), "b": [last(2, 3, 4, 4)]},), None),
    "state": (State(), (last(2, 3, 4, 4),), None),
    "mutated input": (WritesInput(), (last(2, 3, 4, 4),), None),
}


@pytest.mark.parametrize("name", CASES)
@torch.no_grad()
def test_every_layout_runs(name: str, tmp_path: Path) -> None:
    module, inputs, dynamic = CASES[name]
    model = copy.deepcopy(module).eval()
    exported = torch.export.export(
        copy.deepcopy(model), copy.deepcopy(inputs), dynamic_shapes=dynamic
    )
    program = trt_export.compile(exported, on_report=lambda report: None)
    trt_export.save(trt_export.to_edge(program), tmp_path / "model.pte")
    loaded = trt_runtime.load(tmp_path / "model.pte")
    layouts: tuple[Callable[[Tensor], Tensor], ...] = (
        lambda x: x.contiguous(),
        lambda x: x,
        lambda x: x.mT.contiguous().mT,
    )
    for step, layout in enumerate(layouts):
        ours = tree_map_only(Tensor, lambda x: layout(x + step), inputs)  # noqa: B023
        theirs = tree_map_only(Tensor, lambda x: x + step, inputs)  # noqa: B023
        found, expected = loaded.run(tree_leaves(ours)), tree_leaves(model(*theirs))
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(tree_leaves(ours), tree_leaves(theirs))
    for value in loaded.signature().inputs:
        assert value.dtype is not None


def test_a_program_that_reads_by_strides_is_refused() -> None:
    class Strided(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x @ x).sum() + torch.as_strided(x, (2, 2), (1, 2))

    exported = torch.export.export(Strided(), (torch.randn(4, 4).T,))
    program = trt_export.compile(exported, on_report=lambda report: None)
    with pytest.raises(trt_export.TrtExportError, match=r"'as_strided': .* 'x' is not contiguous"):
        trt_export.to_edge(program)
