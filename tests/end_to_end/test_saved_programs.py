"""Programs that `torch.export.save` wrote and `torch.export.load` read: their `.pte` computes what PyTorch does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import trt_export
import trt_runtime

LENGTH = 16


class Cache(nn.Module):
    """Writes its input into a cache, from a position on, and attends to all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(1, 2 * LENGTH, 8))
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.cache[:, positions] = self.linear(x)
        return (x @ self.cache.mT).softmax(-1) @ self.cache


class Prefix(Cache):
    """Attends to the part of the cache that it has just written."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        rows = x.shape[1]
        self.cache[:, :rows] = self.linear(x) + positions[:, None]
        return x @ self.cache[:, :rows].mT


class Shifted(Cache):
    """Shifts the cache, as a window over a stream does; the new part has a half as many rows as the input."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        new = self.linear(x).unflatten(1, (-1, 2)).mean(2)
        self.cache.copy_(torch.cat([self.cache[:, new.shape[1] :], new], 1))
        return (x @ self.cache.mT).tanh() * positions[:, None]


class Unbacked(Cache):
    """Writes at a position that a tensor holds."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        start = positions[0].item()
        torch._check(start >= 0)
        torch._check(start <= LENGTH)
        self.cache.narrow(1, start, x.shape[1]).copy_(self.linear(x))
        return (x @ self.cache.mT).softmax(-1)


class Batched(Cache):
    """Two dynamic dimensions, and a state of a fixed shape."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        self.cache.add_(x.mean((0, 1)))
        return (self.linear(x) @ self.cache[0].mT) + positions[:, None]


@dataclass(frozen=True, eq=False)
class Case:
    module: Callable[[], nn.Module]
    shapes: Any
    sizes: tuple[tuple[int, int], ...]
    """Batch and rows of each call."""

    def inputs(self, call: int) -> tuple[Tensor, Tensor]:
        batch, rows = self.sizes[call]
        generator = torch.Generator().manual_seed(call)
        return torch.randn(batch, rows, 8, generator=generator), torch.arange(rows) + call

    def export(self) -> tuple[nn.Module, ExportedProgram]:
        torch.manual_seed(0)
        module = self.module().eval().requires_grad_(False)
        with torch.no_grad():
            return module, torch.export.export(module, self.inputs(0), dynamic_shapes=self.shapes)


ROWS = Dim("rows", min=1, max=LENGTH)
HALF = Dim("half", min=2, max=LENGTH // 2)
ONE = ((1, 6), (1, 3), (1, 1), (1, LENGTH))
CASES = {
    "cache": Case(Cache, ({1: ROWS}, {0: ROWS}), ONE),
    "prefix": Case(Prefix, ({1: ROWS}, {0: ROWS}), ONE),
    "derived": Case(Shifted, ({1: 2 * HALF}, {0: 2 * HALF}), ((1, 6), (1, 4), (1, LENGTH))),
    "unbacked": Case(Unbacked, ({1: ROWS}, {0: ROWS}), ONE),
    "two": Case(
        Batched, ({0: Dim("batch", min=1, max=4), 1: ROWS}, {0: ROWS}), ((2, 6), (4, 3), (1, 16))
    ),
    "auto": Case(
        Cache,
        ({1: Dim.AUTO(min=2, max=LENGTH)}, {0: Dim.AUTO(min=2, max=LENGTH)}),
        ((1, 6), (1, 3)),
    ),
}


def from_disk(program: ExportedProgram, path: Path) -> ExportedProgram:
    torch.export.save(program, path)
    return torch.export.load(path)


def check(module: nn.Module, run: Callable[[tuple[Tensor, ...]], Tensor], case: Case) -> None:
    """Call both in a row: the state of one call counts in the next."""
    for call in range(len(case.sizes)):
        inputs = case.inputs(call)
        torch.testing.assert_close(run(inputs), module(*inputs), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_program_becomes_a_right_file(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    module, exported = case.export()
    program = trt_export.compile(from_disk(exported, tmp_path / "model.pt2"))
    trt_export.save(trt_export.to_edge(program), tmp_path / "model.pte")
    loaded = trt_runtime.load(tmp_path / "model.pte")
    check(module, lambda inputs: loaded.run(list(inputs))[0], case)


@pytest.mark.parametrize("name", CASES)
def test_a_compiled_program_may_be_saved_in_between(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    module, exported = case.export()
    program = from_disk(trt_export.compile(exported), tmp_path / "compiled.pt2")
    trt_export.save(trt_export.to_edge(program), tmp_path / "model.pte")
    loaded = trt_runtime.load(tmp_path / "model.pte")
    check(module, lambda inputs: loaded.run(list(inputs))[0], case)


def test_loaded_programs_become_methods_of_one_file(tmp_path: Path) -> None:
    cases = {name: CASES[name] for name in ("cache", "derived")}
    modules, programs = {}, {}
    for name, case in cases.items():
        modules[name], exported = case.export()
        programs[name] = trt_export.compile(from_disk(exported, tmp_path / f"{name}.pt2"))
    trt_export.save(trt_export.to_edge(programs), tmp_path / "model.pte")
    loaded = trt_runtime.load(tmp_path / "model.pte")
    for name, case in cases.items():
        check(modules[name], lambda inputs, name=name: loaded.run(list(inputs), name)[0], case)


def test_the_command_builds_from_a_file(tmp_path: Path) -> None:
    case = CASES["cache"]
    module, exported = case.export()
    torch.export.save(exported, tmp_path / "model.pt2")
    subprocess.run(
        [sys.executable, "-m", "trt_export", "build", "model.pt2", "-o", "model.pte"],
        cwd=tmp_path,
        check=True,
    )
    loaded = trt_runtime.load(tmp_path / "model.pte")
    check(module, lambda inputs: loaded.run(list(inputs))[0], case)
