"""States that come from elsewhere: both forms, and what is neither."""

from __future__ import annotations

import io
import zipfile

import pytest
import torch

from trt_runtime import Engine, PlanError, RecordError

from .building import RELU_PLAN, relu_engine
from .states import address, saved, set_state, tensor_state


def test_both_forms_are_read(counted) -> None:
    engine = relu_engine()
    slots = engine.serialize()
    with counted() as grown:
        old = set_state(slots)
    assert grown == {"deserializations": 1, "base64_decodes": 1}
    state = tensor_state(engine)
    with counted() as grown:
        new = set_state(state)
    assert grown == {}
    assert old.serialize() == new.serialize() == engine.serialize()
    assert address(new) == address(engine)


@pytest.mark.parametrize(
    "make",
    [
        lambda plan: plan.clone(),
        lambda plan: torch.cat([plan, plan])[: len(plan)],
        lambda plan: torch.frombuffer(bytearray(plan.tolist()), dtype=torch.uint8),
    ],
    ids=["resizable", "slice", "of Python"],
)
def test_a_tensor_that_others_can_change_is_copied(make, counted) -> None:
    version, slots, plan = tensor_state(relu_engine())
    given = make(plan)
    with counted() as grown:
        engine = set_state((version, slots, given))
    assert grown == {"plan_copies": 1}
    given.zero_()
    if given.untyped_storage().resizable():
        given.untyped_storage().resize_(0)
    assert bytes(engine.plan) == RELU_PLAN


def test_a_part_of_a_plan_is_not_taken_for_the_plan() -> None:
    version, slots, plan = tensor_state(relu_engine())
    with pytest.raises(PlanError, match=r"truncated|ends the plan"):
        set_state((version, slots, plan[:-1]))
    with pytest.raises(PlanError, match="not a plan"):
        set_state((version, slots, plan[1:]))


SLOTS = tensor_state(relu_engine())[1]
PLAN = torch.frombuffer(bytearray(RELU_PLAN), dtype=torch.uint8)
FAKE = torch._subclasses.fake_tensor.FakeTensorMode().from_tensor(PLAN)
BAD: dict[str, tuple[object, type[Exception], str]] = {
    "no strings": ([], RuntimeError, "infer type"),  # torch's
    "a list of lists": ([["10"]] * 13, RecordError, "found a GenericList at index 0"),
    "one string": (["10"], RecordError, "found 1 with ABI '10'"),
    "ints": ([1] * 13, RecordError, "found a Int at index 0"),
    "no plan": (SLOTS, PlanError, "found '' in 0 bytes"),
    "an int": (3, RecordError, "expected a list of strings, or a tuple .* found a Int"),
    "a text": ("x" * 13, RecordError, "found a String"),
    "a dict": ({"a": 1}, RecordError, "found a GenericDict"),
    "a tensor": (PLAN, RecordError, "found a Tensor"),
    "None": (None, RecordError, "found a None"),
    "an empty tuple": ((), RecordError, "expected version 1, found none"),
    "no version": (("1", SLOTS, PLAN), RecordError, "expected version 1, found none"),
    "True": ((True, SLOTS, PLAN), RecordError, "expected version 1, found none"),
    "version 2": ((2, "whatever"), RecordError, "found 2; install a trt-runtime that reads it"),
    "two parts": ((1, SLOTS), RecordError, "found a tuple of 2"),
    "four parts": ((1, SLOTS, PLAN, 1), RecordError, "found a tuple of 4"),
    "no list": ((1, "text", PLAN), RecordError, "found a tuple of 3 of other types"),
    "no tensor": ((1, SLOTS, SLOTS), RecordError, "found a tuple of 3 of other types"),
    "12 slots": ((1, SLOTS[:12], PLAN), RecordError, "expected 13 strings .* found 12"),
    "slots of ints": ((1, [1] * 13, PLAN), RecordError, "found a Int at index 0"),
    "two plans": ((1, relu_engine().serialize(), PLAN), RecordError, "expected nothing, since"),
    "int8": ((1, SLOTS, PLAN.view(torch.int8)), PlanError, "uint8 tensor .* CPUCharType of 1"),
    "two dimensions": ((1, SLOTS, PLAN[None]), PlanError, "of 2 dimensions on cpu"),
    "a scalar": ((1, SLOTS, PLAN[0]), PlanError, "of 0 dimensions"),
    "with gaps": ((1, SLOTS, PLAN[::2]), PlanError, "contiguous uint8 tensor"),
    "meta": ((1, SLOTS, PLAN.to("meta")), PlanError, "dimensions on meta"),
    "fake": ((1, SLOTS, FAKE), PlanError, "contiguous uint8 tensor"),
    "sparse": ((1, SLOTS, PLAN.to_sparse()), PlanError, "contiguous uint8 tensor"),
    "zeros": (
        (1, SLOTS, torch._efficientzerotensor(9, dtype=torch.uint8)),
        PlanError,
        "contiguous",
    ),
    "empty": ((1, SLOTS, PLAN[:0]), PlanError, "found '' in 0 bytes"),
    "no plan's bytes": ((1, SLOTS, torch.ones(9, dtype=torch.uint8)), PlanError, "not a plan"),
    "another plan": ((1, SLOTS, torch.tensor([*b"vtrt"]).byte()), PlanError, "expected a plan of"),
}


@pytest.mark.parametrize(("state", "error", "message"), BAD.values(), ids=BAD.keys())
def test_a_bad_state_is_refused(state, error, message) -> None:
    with pytest.raises(error, match=message):
        set_state(state)


def test_a_file_whose_plan_is_cut_off_is_refused() -> None:
    """Every prefix of an object's file, and every object with a byte of its pickle changed."""
    data = saved(relu_engine())
    for size in range(0, len(data), 97):
        with pytest.raises((RuntimeError, PlanError)):
            torch._C._pickle_load_obj(data[:size])
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name in members if name.endswith("data.pkl"))
    for position in range(0, len(members[name]), 7):
        changed, file = bytearray(members[name]), io.BytesIO()
        changed[position] ^= 0x55
        with zipfile.ZipFile(file, "w") as archive:
            for key, value in members.items():
                archive.writestr(key, bytes(changed) if key == name else value)
        try:
            engine = Engine(torch._C._pickle_load_obj(file.getvalue()))
        except (RuntimeError, IndexError, UnicodeDecodeError, ValueError):
            continue
        assert bytes(engine.plan) == RELU_PLAN
