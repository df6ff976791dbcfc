"""docs/numerics.md says what the operators do: whoever changes a converter, or a version, runs `nox -s numerics`."""

from __future__ import annotations

import platform

import pytest
import torch

from trt_export.compiling import torch_onnx
from trt_export.compiling.differences import DIFFERENCES

from . import facts, page
from .left_out import LEFT_OUT
from .operators import cases
from .values import DTYPES

STALE = "run nox -s numerics and commit docs/numerics.json and docs/numerics.md"


@pytest.mark.filterwarnings("ignore")  # of PyTorch, about the operators that are tried
@pytest.mark.parametrize("dtype", DTYPES, ids=facts.name_of)
def test_the_facts_are_not_stale(dtype: torch.dtype) -> None:
    found, expected = facts.facts([dtype]), facts.of_dtype(facts.committed(), dtype)
    assert platform.machine() == "x86_64", "the facts are those of an x86-64 CPU"
    for operator in expected:
        assert found.get(operator) == expected[operator], f"{operator}: {STALE}"
    assert found.keys() == expected.keys(), STALE


def test_the_page_is_not_stale() -> None:
    assert page.FILE.read_text() == page.page(facts.committed()), STALE


def test_every_operator_with_a_converter_is_tried_or_left_out_for_a_reason() -> None:
    registered = {
        name.removeprefix("aten::")
        for name in torch_onnx._registry().functions
        if isinstance(name, str) and name.startswith("aten::")
    }
    left_out = [name for names in LEFT_OUT.values() for name in names]
    tried = {case.operator for case in cases()}
    assert tried | set(left_out) == registered
    assert len(left_out) == len(set(left_out))
    assert tried.isdisjoint(left_out)


def test_what_loses_nan_is_in_the_report() -> None:
    """And what the report says of an operator is seen in the facts."""
    seen = {
        operator
        for operator, calls in facts.committed().items()
        for by_dtype in calls.values()
        for fact in by_dtype.values()
        if {"NaN is lost", "NaN", "infinity", "number"} & fact.keys()
    }
    loses = {
        operator
        for operator, calls in facts.committed().items()
        for by_dtype in calls.values()
        for fact in by_dtype.values()
        if "nan" in fact.get("NaN is lost", [""])[0]
    }
    assert set(DIFFERENCES) <= seen
    assert loses <= set(DIFFERENCES)


def test_no_ordinary_number_differs() -> None:
    """A result from small finite numbers that is wrong is a fault of a converter: it is mended or stays in PyTorch."""
    ordinary = {
        (operator, call)
        for operator, calls in facts.committed().items()
        for call, by_dtype in calls.items()
        for fact in by_dtype.values()
        if "number" in fact and not (call.endswith("_row") or _is_special(fact["number"]))
    }
    assert ordinary == {("aten.topk.default", ""), ("aten.topk.default", "smallest")}, "ties"


def _is_special(example: list[str]) -> bool:
    numbers = example[0].replace("[", "").replace("]", "").split(", ")
    return any(
        number in ("nan", "inf", "-inf") or "e+" in number or "e-" in number or len(number) > 10
        for number in numbers
    )
