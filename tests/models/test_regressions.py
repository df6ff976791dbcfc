"""`nox -s models` fails for a row that is worse than the committed one, and names it."""

from __future__ import annotations

from typing import Any

import pytest
from rows_of import STEPS, failing, good, left

from architectures.regressions import missing, worse

REFUSED = {"engines": 0, "left": [], "refused": "CompileError: no AveragePool"}


@pytest.mark.parametrize(
    ("now", "found"),
    [
        (good(engines=2, left=[left()]), "1 engine, found 2 engines, 1 node outside"),
        (good(engines=2), "1 engine, found 2 engines"),
        (good(left=[left(3)]), "1 engine, found 1 engine, 3 nodes outside"),
        (good(engines=0, left=[left(9)]), "1 engine, found no engine"),
        (good(error=2e-3), "an error of at most 1.0e-05, found 2.0e-03"),
        (good(error=float("nan")), "an error of at most 1.0e-05, found nan"),
        (good(error=5e-5), "an error of at most 1.0e-05, found 5.0e-05"),
        (good(verified=False), "verified engines"),
        (good(**{"tensorrt-rtx": REFUSED}), "tensorrt-rtx: 1 engine, found refused: CompileError"),
        (
            good(**{"tensorrt-rtx": {"engines": 3, "left": [left(2)]}}),
            "tensorrt-rtx: 1 engine, found 3 engines, 2 nodes outside (aten.sort.default: nobody",
        ),
    ],
)
def test_a_worse_row_is_named_with_expected_and_found(now: dict[str, Any], found: str) -> None:
    (problem,) = worse(good(), now)
    assert problem.startswith(f"Net: expected {found}")


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_worked_and_fails_is_worse(step: str) -> None:
    assert worse(good(), failing(step)) == [
        f"Net: expected `{step}` to work, found: `{step}`: ValueError: no"
    ]
    assert worse(failing(step), failing(step, "TypeError: another message")) == []
    assert worse(failing(step), good()) == []


def test_failing_earlier_is_worse() -> None:
    before, now = failing("run in ExecuTorch"), failing("to .pte")
    assert worse(now, before) == []
    assert worse(before, now) == [
        "Net: expected `to .pte` to work, found: `to .pte`: ValueError: no"
    ]


def test_the_others_of_a_row_that_fails_are_still_compared() -> None:
    before = failing("to .pte", engines=2, left=[left(2)])
    (problem,) = worse(before, {**before, "left": [left(3)]})
    assert "expected 2 engines, 2 nodes outside, found 2 engines, 3 nodes outside" in problem


@pytest.mark.parametrize(
    "changes",
    [
        {"seconds": 300.0, "plan": 9.0},
        {"error": 0.0},
        {"error": 9e-7},
        {"name": "Net"},
    ],
)
def test_the_same_or_better_passes(changes: dict[str, Any]) -> None:
    assert worse(good(), good(**changes)) == []


def test_a_row_that_becomes_whole_passes() -> None:
    split = good(engines=4, left=[left(3)], verified=False, **{"tensorrt-rtx": REFUSED})
    assert worse(split, good()) == []
    assert worse(split, good(engines=3, left=[left(2)])) == []
    # Fewer engines are no excuse for more nodes outside.
    assert len(worse(split, good(engines=1, left=[left(4)]))) == 1


def test_something_is_better_than_no_engine() -> None:
    none = good(engines=0, left=[left(5)])
    assert worse(none, good(engines=3, left=[left(2)])) == []
    assert worse(none, good(engines=0, left=[left(6)])) != []


def test_a_wrong_row_may_stay_wrong_but_not_become_much_worse() -> None:
    wrong = good(error=0.3)
    assert worse(wrong, good(error=0.9)) == []
    assert worse(wrong, good(error=2.0)) == [
        "Net: expected an error of at most 1.5e+00, found 2.0e+00"
    ]


def test_an_error_up_to_the_tolerance_is_allowed_only_near_the_committed_one() -> None:
    near = good(error=4e-5)
    assert worse(near, good(error=9e-5)) == []
    assert worse(near, good(error=1.1e-4)) == [
        "Net: expected an error of at most 1.0e-04, found 1.1e-04"
    ]


def test_a_new_row_has_to_work_and_to_be_right() -> None:
    assert worse(None, good(engines=2, left=[left()])) == []
    assert worse(None, failing("compile")) == [
        "Net: expected `compile` to work, found: ValueError: no"
    ]
    assert worse(None, good(error=0.1)) == [
        "Net: expected an error of at most 1.0e-04, found 1.0e-01"
    ]


def test_a_missing_row_is_named() -> None:
    committed = {"Net": good(), "Old": good(name="Old")}
    assert missing(committed, ["Net", "New"]) == [
        "Old: expected a model of this name, found none; put it back, or drop the row with --accept"
    ]
    assert missing(committed, ["Old", "Net"]) == []
