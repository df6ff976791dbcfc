"""What a loaded delegate is bound to: kept from call to call, made anew when the arguments change."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from executorch.exir.passes import MemoryPlanningPass

import trt_runtime
from lowering import load

from .programs import scaling_program, scaling_pte


@pytest.fixture
def program(tmp_path: Path) -> trt_runtime.Program:
    return trt_runtime.load(scaling_pte(tmp_path / "model.pte"))


def run(program: trt_runtime.Program, *sizes: int) -> None:
    for size in sizes:
        x = torch.randn(size, 8)
        (y,) = program.run([x])
        assert y.shape == x.shape
        assert torch.equal(y, 2 * x)


def test_calls_of_one_size_are_bound_once(program, counted) -> None:
    with counted() as grown:
        run(program, *[3] * 20)
    assert grown["delegate_bindings"] == 1


def test_sizes_that_alternate_are_bound_once_each(program, counted) -> None:
    with counted() as grown:
        run(program, *[3, 1, 64, 2] * 5)
    assert grown["delegate_bindings"] == 4


def test_more_sizes_than_are_kept_are_right_and_the_latest_stay(program, counted) -> None:
    run(program, *range(1, 21))
    with counted() as grown:
        run(program, *range(13, 21))
    assert "delegate_bindings" not in grown
    with counted() as grown:
        run(program, 1, 2, 20)  # 20 is among the latest still
    assert grown["delegate_bindings"] == 2


def test_memory_of_the_caller_is_bound_where_it_is(tmp_path: Path, counted) -> None:
    """Without planned inputs ExecuTorch hands over the caller's own tensors."""
    program = load(
        scaling_program(),
        tmp_path / "model.pte",
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=False),
    )
    mine = [torch.randn(4, 8) for _ in range(3)]
    for x in mine * 3:
        (y,) = program.run([x])
        assert torch.equal(y, 2 * x)
        x.normal_()  # the same memory with other values: nothing of the last call is remembered
        (y,) = program.run([x])
        assert torch.equal(y, 2 * x)


def test_results_are_the_callers_own(program) -> None:
    x = torch.randn(4, 8)
    (first,) = program.run([x])
    kept = first.clone()
    program.run([x + 1])
    assert torch.equal(first, kept)
