"""Plans from elsewhere: every byte of the header may lie."""

from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trt_runtime import Engine, PlanError

from .building import HEADER, RELU_PLAN, relu_record

RECORD = relu_record()


def make(plan: bytes) -> Engine:
    return Engine.from_plan(plan, RECORD)


@pytest.mark.parametrize("size", range(len(RELU_PLAN)))
def test_a_truncated_plan_is_refused(size) -> None:
    with pytest.raises(PlanError):
        make(RELU_PLAN[:size])


def test_a_plan_with_something_behind_it_is_refused() -> None:
    with pytest.raises(PlanError, match=r"that ends the plan"):
        make(RELU_PLAN + b"\0")


@pytest.mark.parametrize(
    "magic", [b"", b"o", b"ort", b"ORTP", b"ptro", b"\x7fELF", b"PK\3\4", b"\0\0\0\0"]
)
def test_another_magic_is_refused(magic) -> None:
    with pytest.raises(PlanError, match=r"not a plan: expected the magic 'ortp'"):
        make(magic + RELU_PLAN[4:] if len(magic) == 4 else magic)


def test_an_unprintable_magic_is_shown_in_hex() -> None:
    with pytest.raises(PlanError, match=r"found '\\x1b\[2J'"):
        make(b"\x1b[2J" + bytes(60))


@pytest.mark.parametrize(
    ("field", "values"),
    [
        (1, [0, 2, 0xFFFF]),  # version
        (2, [1, 0x8000, 0xFFFF]),  # flags
        (3, [0, 1, 63, 65, 2**31, 2**32 - 1, 2**32 - 64]),  # payload offset
        (4, [65, 2**31, 2**32 - 1, 2**32 - 64]),  # provenance size
        (5, [0, 1, 2**32, 2**63, 2**64 - 1, 2**64 - 64, 2**64 - 128]),  # payload size
    ],
)
def test_a_lying_field_is_refused(field, values) -> None:
    header = list(HEADER.unpack_from(RELU_PLAN))
    for value in values:
        plan = HEADER.pack(*header[:field], value, *header[field + 1 :]) + RELU_PLAN[HEADER.size :]
        with pytest.raises(PlanError, match=r"onnxruntime plan: expected"):
            make(plan)


def test_offset_and_size_that_agree_only_by_overflow_are_refused() -> None:
    header = list(HEADER.unpack_from(RELU_PLAN))
    header[3] = 2**32 - 64
    header[5] = (len(RELU_PLAN) - header[3]) % 2**64
    with pytest.raises(PlanError, match=r"expected the payload at a multiple of 64"):
        make(HEADER.pack(*header) + RELU_PLAN[HEADER.size :])


def test_a_payload_that_is_not_aligned_is_refused() -> None:
    header = list(HEADER.unpack_from(RELU_PLAN))
    offset = header[3]
    header[3] += 1
    plan = HEADER.pack(*header) + RELU_PLAN[HEADER.size : offset] + b"\0" + RELU_PLAN[offset:]
    with pytest.raises(PlanError, match=r"expected the payload at a multiple of 64"):
        make(plan)


@given(st.integers(0, HEADER.size * 8 - 1))
def test_a_flipped_bit_in_the_header_is_found_before_anything_runs(bit) -> None:
    plan = bytearray(RELU_PLAN)
    plan[bit // 8] ^= 1 << bit % 8
    record = {**RECORD, "plan": Engine.from_plan(RELU_PLAN, RECORD).info.plan.to_mapping()}
    with pytest.raises(PlanError):
        Engine.from_plan(bytes(plan), record)(torch.ones(1, 8))


@given(st.integers(0, len(RELU_PLAN) - HEADER.size - 1))
def test_a_changed_byte_behind_the_header_is_found_before_anything_runs(offset) -> None:
    plan = bytearray(RELU_PLAN)
    plan[HEADER.size + offset] ^= 0x10
    record = {**RECORD, "plan": Engine.from_plan(RELU_PLAN, RECORD).info.plan.to_mapping()}
    with pytest.raises(PlanError, match=r"sha256|expected zeros"):
        Engine.from_plan(bytes(plan), record)(torch.ones(1, 8))


@given(st.binary(max_size=200).map(lambda rest: b"ortp" + rest))
def test_random_bytes_behind_our_magic_are_refused(plan) -> None:
    with pytest.raises(PlanError):
        make(plan)


@pytest.mark.parametrize(("magic", "name"), [(b"ftrt", "tensorrt"), (b"vtrt", "tensorrt-rtx")])
def test_the_plans_of_tensorrt_are_told_by_their_magic_alone(magic, name) -> None:
    """NVIDIA documents no more of their headers, so no more is demanded."""
    for size in (4, 64, 4096):
        plan = magic + bytes(size - 4)
        engine = Engine.from_plan(plan, relu_record(device="cuda:0"))
        assert engine.info.plan.format == name
        assert bytes(engine.plan) == plan


def test_the_header_is_that_of_the_contract() -> None:
    assert HEADER.size == 64
    assert struct.unpack_from("<4sHH", RELU_PLAN) == (b"ortp", 1, 0)
