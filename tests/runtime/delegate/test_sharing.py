"""Engines of several delegates: one executor for one plan, gone with the last of them."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime import PlanError
from trt_runtime.delegate import shared_executors

from ..building import binding, model, plan_of, record_of
from .programs import opened, payload_of, raw, scaling_pte


def test_two_loads_of_one_plan_share_its_executor(tmp_path: Path, counted) -> None:
    path = scaling_pte(tmp_path / "model.pte", 3)
    x = torch.randn(2, 8)
    with counted() as grown:
        programs = [trt_runtime.load(path), trt_runtime.load(path)]
        for program in programs:
            torch.testing.assert_close(program.run([x]), [3 * x])
    assert grown["executor_loads"] == 1
    assert grown["plan_hashes"] == 1
    assert set(grown) == {"executor_loads", "plan_hashes", "delegate_bindings"}


def test_an_executor_is_gone_with_the_last_program_that_uses_it(tmp_path: Path, counted) -> None:
    path = scaling_pte(tmp_path / "model.pte", 5)
    x = torch.randn(2, 8)
    before = set(map(id, shared_executors._open.values()))
    first, second = trt_runtime.load(path), trt_runtime.load(path)
    first.run([x])
    second.run([x])
    del first
    gc.collect()
    with counted() as grown:
        torch.testing.assert_close(second.run([x]), [5 * x])
        trt_runtime.load(path).run([x])
    assert "executor_loads" not in grown
    del second
    gc.collect()
    assert set(map(id, shared_executors._open.values())) == before
    with counted() as grown:
        trt_runtime.load(path).run([x])
    assert grown["executor_loads"] == 1


def test_nothing_is_loaded_before_the_first_run(tmp_path: Path, counted) -> None:
    path = scaling_pte(tmp_path / "model.pte", 7)
    with counted() as grown:
        program = trt_runtime.load(path)
    assert grown == {}
    assert program.methods == ("forward",)


def test_different_plans_have_different_executors(tmp_path: Path, counted) -> None:
    x = torch.randn(2, 8)
    with counted() as grown:
        programs = [
            trt_runtime.load(scaling_pte(tmp_path / f"{factor}.pte", factor)) for factor in (11, 13)
        ]
        found = [program.run([x])[0] for program in programs]
    torch.testing.assert_close(found, [11 * x, 13 * x])
    assert grown["executor_loads"] == 2


INPUTS = [binding("left", "float32", [2, 3], {}), binding("right", "float32", [2, 3], {})]
OUTPUTS = [binding("out", "float32", [2, 3])]
PLAN = plan_of(model([("Sub", ["left", "right"], ["out"])], INPUTS, OUTPUTS).SerializeToString())


def test_a_record_with_another_order_of_inputs_is_bound_by_name() -> None:
    left, right, out = torch.randn(2, 3), torch.randn(2, 3), torch.empty(2, 3)
    first = opened(payload_of(PLAN, record_of(INPUTS, OUTPUTS)))
    turned = opened(payload_of(PLAN, record_of(INPUTS[::-1], OUTPUTS)))
    by_payload = opened(
        payload_of(PLAN, record_of(INPUTS, OUTPUTS), order=["right", "left", "out"])
    )
    for delegate, given in (
        (first, [left, right]),
        (turned, [right, left]),
        (by_payload, [right, left]),
    ):
        assert delegate.output_sizes([raw(x) for x in given]) == [[2, 3]]
        delegate.bind([raw(x) for x in given], [raw(out.zero_())])()
        torch.testing.assert_close(out, left - right)


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (INPUTS, [binding("out", "float16", [2, 3])]),
        ([INPUTS[0], binding("other", "float32", [2, 3], {})], OUTPUTS),
    ],
    ids=["dtype", "name"],
)
def test_a_record_of_other_bindings_is_refused_though_the_plan_is_open(inputs, outputs) -> None:
    """ONNX Runtime would write float32 into memory that is planned for float16."""
    keeps = opened(payload_of(PLAN, record_of(INPUTS, OUTPUTS)))
    with pytest.raises(PlanError, match=r"found .* in the ONNX model; the plan belongs to another"):
        opened(payload_of(PLAN, record_of(inputs, outputs)))
    del keeps


def test_an_output_with_the_name_of_an_input_is_refused() -> None:
    """ONNX Runtime takes a model that hands an input on, and leaves the memory of the output as it was."""
    inputs = [binding("x", "float32", [2], {}), binding("y", "float32", [3], {})]
    outputs = [binding("y", "float32", [3]), binding("z", "float32", [2])]
    plan = plan_of(model([("Neg", ["x"], ["z"])], inputs, outputs).SerializeToString())
    fields = [
        {"name": b["name"], "dtype": "float32", "shape": b["shape"], "is_input": is_input}
        for is_input, side in ((True, inputs), (False, outputs))
        for b in side
    ]
    with pytest.raises(
        PlanError, match=r"expected names of outputs that no input has, found \['y'\]"
    ):
        opened(payload_of(plan, record_of(inputs, outputs), io_bindings=fields))
    engine = trt_runtime.Engine.from_plan(plan, record_of(inputs, outputs))
    with pytest.raises(PlanError, match="that no input has"):
        engine(torch.ones(2), torch.ones(3))
