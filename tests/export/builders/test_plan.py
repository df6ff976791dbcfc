"""Plan headers: ours is written and checked, those of NVIDIA are read as far as they are known."""

import struct
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_export.errors import (
    CorruptPlanError,
    PlanError,
    TruncatedPlanError,
    UnknownPlanFormatError,
)
from trt_export.plan import check_plan, read_plan_header, write_onnxruntime_plan

PAYLOAD = bytes(range(200))
PLAN = write_onnxruntime_plan(
    [memoryview(PAYLOAD[:50]), memoryview(PAYLOAD[50:])], {"builder": "onnxruntime"}
)


def rtx_plan(
    size: int = 100, mask: int = 0b110, version: tuple[int, ...] = (1, 7, 1, 116)
) -> bytes:
    head = (
        b"vtrt"
        + bytes(12)
        + struct.pack("<Q", size)
        + bytes(version)
        + bytes(4)
        + struct.pack("<I", mask)
    )
    return head.ljust(100, b"\1")


def test_a_plan_is_the_header_the_provenance_and_the_payload() -> None:
    header = check_plan(PLAN)
    assert (header.format, header.size, header.version) == ("onnxruntime", len(PLAN), "1")
    assert header.provenance == {"builder": "onnxruntime"}
    assert header.payload_offset is not None
    assert header.payload_offset % 64 == 0
    assert PLAN[header.payload_offset :] == PAYLOAD
    assert header.payload_size == len(PAYLOAD)


def test_a_plan_may_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(PLAN)
    assert read_plan_header(path) == check_plan(str(path)) == check_plan(memoryview(PLAN))


@given(st.integers(0, len(PLAN) - 1))
def test_a_truncated_plan_is_refused(length: int) -> None:
    with pytest.raises(
        (TruncatedPlanError, UnknownPlanFormatError) if length < 4 else TruncatedPlanError
    ):
        read_plan_header(PLAN[:length])


def test_a_plan_with_something_behind_it_is_refused() -> None:
    with pytest.raises(
        TruncatedPlanError, match=f"has {len(PLAN) + 1} bytes, its header says {len(PLAN)}"
    ):
        read_plan_header(PLAN + b"\0")


@given(st.integers(0, len(PLAN) - 1), st.integers(0, 7))
def test_no_flipped_bit_goes_unnoticed(position: int, bit: int) -> None:
    flipped = bytearray(PLAN)
    flipped[position] ^= 1 << bit
    if 64 <= position < 64 + len('{"builder": "onnxruntime"}'):
        # The provenance has no checksum of its own: the engine's record has one of the whole plan.
        with suppress(PlanError):
            assert check_plan(flipped).provenance != check_plan(PLAN).provenance
        return
    with pytest.raises(PlanError):
        check_plan(flipped)


def test_a_later_version_is_refused_with_the_way_out() -> None:
    later = bytearray(PLAN)
    later[4] = 2
    with pytest.raises(UnknownPlanFormatError, match=r"version 2.*pip install -U"):
        read_plan_header(later)


@pytest.mark.parametrize(
    "data", [b"", b"PK\3\4" + bytes(100), b"ET12" + bytes(100)], ids=["empty", "zip", "pte"]
)
def test_what_is_no_plan_is_refused(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "plan"
    path.write_bytes(data)
    for plan in (data, path):
        with pytest.raises(UnknownPlanFormatError, match="ortp, ftrt, vtrt"):
            read_plan_header(plan)


def test_the_header_of_tensorrt_rtx_tells_version_and_capabilities() -> None:
    header = read_plan_header(rtx_plan())
    assert (header.version, header.compute_capabilities) == ("1.7.1.116", ("8.0", "8.6"))
    with pytest.raises(TruncatedPlanError, match="has 100 bytes, its header says 101"):
        read_plan_header(rtx_plan(size=101))


@pytest.mark.parametrize(
    "plan", [rtx_plan(mask=0), rtx_plan(mask=1 << 20), rtx_plan(version=(0, 0, 0, 0))]
)
def test_what_is_not_certain_about_it_is_unknown(plan: bytes) -> None:
    assert read_plan_header(plan).compute_capabilities is None


def test_the_header_of_tensorrt_tells_the_version() -> None:
    plan = b"ftrt" + bytes(20) + bytes((10, 13, 2, 6)) + bytes(80)
    header = read_plan_header(plan)
    assert (header.format, header.version, header.compute_capabilities) == (
        "tensorrt",
        "10.13.2.6",
        None,
    )
    with pytest.raises(TruncatedPlanError):
        read_plan_header(plan[:30])


def test_a_header_that_contradicts_itself_is_corrupt() -> None:
    broken = bytearray(PLAN)
    broken[8:12] = struct.pack("<I", 64)  # a payload that begins inside the provenance
    with pytest.raises(CorruptPlanError, match="contradicts itself"):
        read_plan_header(broken)
