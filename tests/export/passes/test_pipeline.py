"""The order of passes: said by each, checked when they are put together."""

import pytest

from trt_export.edge import PASSES
from trt_export.errors import PassOrderError
from trt_export.passes.pipeline import Pass, Pipeline
from trt_export.passes.prepare import PREPARE


def step(name: str, *after: str) -> Pass[list[str]]:
    """A toy pass: it writes its name down."""
    return Pass(name, lambda log: log.append(name), after)


def test_passes_run_in_their_order() -> None:
    log: list[str] = []
    seen: list[tuple[str, int]] = []
    pipeline = Pipeline([step("a"), step("b", "a"), step("c", "a", "b")])
    pipeline.run(log, on_pass=lambda name: seen.append((name, len(log))))
    assert log == ["a", "b", "c"]
    assert seen == [("a", 1), ("b", 2), ("c", 3)]


def test_passes_that_do_not_care_may_go_either_way() -> None:
    Pipeline([step("a"), step("b"), step("c", "a")])
    Pipeline([step("b"), step("a"), step("c", "a")])


def test_nothing_is_a_pipeline_too() -> None:
    Pipeline[object]([]).run(object())


@pytest.mark.parametrize(
    ("passes", "violations"),
    [
        ([step("b", "a"), step("a")], ["'b' needs 'a' before it, which comes later"]),
        ([step("b", "a")], ["'b' needs 'a', which is not there"]),
        ([step("a"), step("a")], ["'a' is there twice"]),
        ([step("a", "a")], ["'a' needs 'a' before it, which is itself"]),
        (
            [step("c", "b", "a", "x"), step("b", "a"), step("a", "y")],
            [
                "'c' needs 'b' before it, which comes later",
                "'c' needs 'a' before it, which comes later",
                "'c' needs 'x', which is not there",
                "'b' needs 'a' before it, which comes later",
                "'a' needs 'y', which is not there",
            ],
        ),
    ],
)
def test_every_violation_is_listed(passes: list[Pass[list[str]]], violations: list[str]) -> None:
    with pytest.raises(PassOrderError) as caught:
        Pipeline(passes)
    text = str(caught.value)
    order = ", ".join(item.name for item in passes)
    count = f"{len(violations)} violation{'s' if len(violations) > 1 else ''}"
    assert text == f"{count} of the order of passes {order}: {'; '.join(violations)}"


def test_no_pass_runs_in_a_pipeline_that_is_wrong() -> None:
    log: list[str] = []
    with pytest.raises(PassOrderError):
        Pipeline([step("a"), step("c", "b"), step("b")]).run(log)
    assert log == []


def test_a_pass_that_fails_is_the_last() -> None:
    log: list[str] = []

    def fail(log: list[str]) -> None:
        raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        Pipeline([step("a"), Pass("bad", fail, ("a",)), step("c")]).run(log)
    assert log == ["a"]


def test_our_own_passes_are_in_order() -> None:
    assert [item.name for item in Pipeline(PREPARE).passes] == [
        "find",
        "probe",
        "choose-formats",
        "read-records",
        "validate",
        "read-plans",
        "check-plans",
        "rewrite",
    ]
    assert Pipeline(PASSES).passes[: len(PREPARE)] == PREPARE


def test_what_our_passes_rely_on_cannot_be_left_out_or_moved() -> None:
    """Every pass but the last is one that another relies on, so that no order but ours is left."""
    for index, item in enumerate(PASSES[:-1]):
        without = [*PASSES[:index], *PASSES[index + 1 :]]
        with pytest.raises(PassOrderError, match=f"needs '{item.name}'"):
            Pipeline(without)
        with pytest.raises(PassOrderError, match=f"needs '{item.name}' before it"):
            Pipeline([*without, item])


@pytest.mark.parametrize("index", range(len(PASSES) - 1), ids=lambda index: PASSES[index].name)
def test_no_two_of_our_passes_may_change_places(index: int) -> None:
    first, second = PASSES[index : index + 2]
    with pytest.raises(PassOrderError, match=f"'{second.name}' needs '{first.name}' before it"):
        Pipeline([*PASSES[:index], second, first, *PASSES[index + 2 :]])
