"""Which engine is which: by identity, whatever it is compared with."""

from __future__ import annotations

import pytest
import torch

from trt_runtime import Engine

from .building import RELU_PLAN, Calls, relu_engine, relu_record


def test_an_engine_equals_itself_through_whatever_wrapper() -> None:
    engine = relu_engine().script_object
    program = torch.export.export(Calls(Engine(engine)), (torch.ones(4, 8),))
    # Going through the dispatcher gives a wrapper of its own.
    for other in (engine, program.constants["engine"]):
        assert engine == other
        assert (engine != other) is False
        assert hash(engine) == hash(other)


def test_engines_of_one_plan_and_record_are_two() -> None:
    engine, other = (Engine.from_plan(RELU_PLAN, relu_record()).script_object for _ in range(2))
    assert (engine == other) is False
    assert engine != other


@pytest.mark.parametrize(
    "other",
    [
        None,
        0,
        1.5,
        2j,
        True,
        "text",
        torch.ones(2),
        torch.ones(2, 8)[0],
        torch.device("cpu"),
        torch.float32,
        [1],
        (1, "text"),
        [None],
        {"key": 1},
    ],
    ids=repr,
)
def test_an_engine_equals_nothing_else(other) -> None:
    engine = relu_engine().script_object
    assert (engine == other) is False
    assert engine != other
    assert (other == engine) is False


def test_an_engine_equals_no_object_of_another_class() -> None:
    engine = relu_engine().script_object
    other = torch.classes.profiling._ScriptProfile()
    assert (engine == other) is False
    assert engine != other


def test_what_torch_cannot_hand_to_native_code_is_an_error_of_torch() -> None:
    """The comparison never gets to the engine: torch converts the other side first."""
    with pytest.raises(RuntimeError, match="cannot infer type"):
        _ = relu_engine().script_object == object()


def test_engines_are_keys() -> None:
    first, second = relu_engine().script_object, relu_engine().script_object
    names = {first: "first", second: "second"}
    assert (names[first], names[second]) == ("first", "second")
    assert len({first, second, first}) == 2
