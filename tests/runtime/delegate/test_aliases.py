"""TR02: an output that aliases an input is written in place, and the model still reads the old state."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir.passes import MemoryPlanningPass
from torch import Tensor

import trt_runtime
from lowering import load
from trt_runtime import InputError
from trt_runtime.delegate.engine import DelegateEngine

from ..building import binding, engine_of, model, plan_of, record_of
from .programs import Runs, opened, payload_of, raw

# The product reads the old state after the new one was written: state * (state + new).
NODES = [("Add", ["state", "new"], ["updated"]), ("Mul", ["state", "updated"], ["product"])]
INPUTS = [binding("new", "float32", [2, 8], {}), binding("state", "float32", [2, 8], {})]
OUTPUTS = [binding("product", "float32", [2, 8]), binding("updated", "float32", [2, 8])]
ALIASED = [{"output": "updated", "input": "state", "kind": "kv_cache_update"}]


@pytest.fixture
def delegate() -> DelegateEngine:
    plan = plan_of(model(NODES, INPUTS, OUTPUTS).SerializeToString())
    return opened(payload_of(plan, record_of(INPUTS, OUTPUTS, aliased_io=ALIASED)))


@pytest.mark.parametrize("shared", [True, False], ids=["one memory", "two memories"])
def test_the_state_is_written_in_place(delegate: DelegateEngine, shared: bool) -> None:
    new, state, product = torch.randn(2, 8), torch.randn(2, 8), torch.zeros(2, 8)
    updated = state if shared else torch.zeros(2, 8)
    run = delegate.bind([raw(new), raw(state)], [raw(product), raw(updated)])
    expected = state.clone()
    for _ in range(3):
        new.normal_()
        old, expected = expected, expected + new
        run()
        torch.testing.assert_close(product, old * expected)
        torch.testing.assert_close(state, expected)
        torch.testing.assert_close(updated, expected)


@pytest.mark.parametrize(
    ("updated", "message"),
    [
        (torch.zeros(2, 9), r"found torch.float32 and \[2, 9\]"),
        (torch.zeros(2, 8).double(), "expected dtype torch.float32, found torch.float64"),
    ],
)
def test_an_alias_of_another_shape_or_dtype_is_refused(delegate, updated, message) -> None:
    new = torch.zeros(2, 8)
    with pytest.raises(InputError, match=rf"output 'updated': .*{message}"):
        delegate.bind([raw(new), raw(new)], [raw(new), raw(updated)])


def engine() -> trt_runtime.Engine:
    return engine_of(NODES, INPUTS, OUTPUTS, aliased_io=ALIASED)


def test_the_state_of_a_program_is_kept_and_begins_at_its_value(tmp_path: Path) -> None:
    def forward(self: Runs, new: Tensor) -> Tensor:
        product, updated = self.call(new, self.state)
        self.state.copy_(updated)
        return product

    first = torch.randn(2, 8)
    program = torch.export.export(Runs(engine(), forward, state=first.clone()), (torch.ones(2, 8),))
    loaded = load(program, tmp_path / "buffer.pte")
    state = first
    for _ in range(5):
        new = torch.randn(2, 8)
        old, state = state, state + new
        torch.testing.assert_close(loaded.run([new]), [old * state])


def test_the_callers_state_is_written_where_it_is(tmp_path: Path) -> None:
    def forward(self: Runs, new: Tensor, state: Tensor) -> Any:
        return self.call(new, state)

    loaded = load(
        torch.export.export(Runs(engine(), forward), (torch.ones(2, 8), torch.ones(2, 8))),
        tmp_path / "input.pte",
        memory_planning_pass=MemoryPlanningPass(alloc_graph_input=False, alloc_graph_output=True),
    )
    state = torch.randn(2, 8)
    expected = state.clone()
    for _ in range(3):
        new = torch.randn(2, 8)
        old, expected = expected, expected + new
        product, updated = loaded.run([new, state])
        torch.testing.assert_close(product, old * expected)
        torch.testing.assert_close(updated, expected)
        torch.testing.assert_close(state, expected)


def test_a_planned_copy_of_the_callers_state_leaves_the_callers(tmp_path: Path) -> None:
    """ExecuTorch copies inputs into memory that it planned, unless told otherwise."""
    loaded = load(
        torch.export.export(Runs(engine()), (torch.ones(2, 8), torch.ones(2, 8))),
        tmp_path / "planned.pte",
    )
    new, state = torch.randn(2, 8), torch.randn(2, 8)
    kept = state.clone()
    for _ in range(2):
        torch.testing.assert_close(loaded.run([new, state]), [kept * (kept + new), kept + new])
        assert torch.equal(state, kept)
