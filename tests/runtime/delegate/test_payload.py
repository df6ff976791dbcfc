"""The native reader of payloads: what is damaged is a typed error with what to do, never more."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_runtime import ProgramError, RecordError, _native
from trt_runtime.delegate.payload import info_from_payload

from ..building import RELU_PLAN, relu_record
from .programs import HEADER, frame, payload_of

PAYLOAD = payload_of(RELU_PLAN, relu_record())
TEXT_SIZE, START, PLAN_SIZE = HEADER.unpack_from(PAYLOAD)[2:5]
TEXT = PAYLOAD[32 : 32 + TEXT_SIZE]
MEND = "; the file is damaged or from another version, lower it again"


def refused(payload: bytes) -> str:
    with pytest.raises(ProgramError) as caught:
        _native.read_payload(payload)
    message = str(caught.value)
    assert message.startswith("delegate payload: ")
    assert "expected " in message
    assert ", found " in message
    assert message.endswith(MEND)
    assert len(message) < 600
    assert message.isprintable()
    return message


def with_header(**fields: Any) -> bytes:
    names = ("magic", "at", "size", "start", "plan", "reserved")
    values = dict(zip(names, HEADER.unpack_from(PAYLOAD), strict=True))
    return HEADER.pack(*{**values, **fields}.values()) + PAYLOAD[32:]


def with_json(**fields: Any) -> bytes:
    return frame(json.dumps({**json.loads(TEXT), **fields}).encode(), RELU_PLAN)


def with_binding(index: int = 0, **fields: Any) -> bytes:
    bindings = json.loads(TEXT)["io_bindings"]
    bindings[index].update(fields)
    return with_json(io_bindings=[{k: v for k, v in b.items() if v != "gone"} for b in bindings])


def test_a_good_payload_is_read_and_its_plan_is_where_it_is() -> None:
    fields, start = _native.read_payload(PAYLOAD)
    assert start == START
    assert PAYLOAD[start:] == RELU_PLAN
    assert fields["bindings"] == [
        {"name": "in_0", "dtype": "float32", "shape": [-1, 8], "is_input": True},
        {"name": "out_0", "dtype": "float32", "shape": [-1, 8], "is_input": False},
    ]
    assert fields["device_id"] == -1
    assert fields["aliased_io"] == []
    assert fields["hardware_compatible"] is False
    assert fields["target_platform"] == "linux_x86_64"


def test_what_may_be_left_out_has_the_values_of_the_field() -> None:
    bindings = json.loads(TEXT)["io_bindings"]
    fields, _ = _native.read_payload(frame(json.dumps({"io_bindings": bindings}).encode(), b""))
    assert (fields["device_id"], fields["metadata"], fields["target_platform"]) == (0, "", "")
    payload = with_json(device_id=3, hardware_compatible=True, something_new=[1])
    fields, _ = _native.read_payload(payload)
    assert (fields["device_id"], fields["hardware_compatible"]) == (3, True)


@pytest.mark.parametrize("size", [*range(33), 40, 32 + TEXT_SIZE - 1, START - 1, START, -1])
def test_a_payload_cut_off_anywhere(size: int) -> None:
    refused(PAYLOAD[:size])


def test_a_payload_with_bytes_behind_its_plan() -> None:
    assert "that ends the payload" in refused(PAYLOAD + b"\0")


@pytest.mark.parametrize(
    "magic", [b"TR00", b"TR03", b"tr01", b"\0\0\0\0", b"\xff\xfe\x1b[", b"ET12"]
)
def test_another_magic(magic: bytes) -> None:
    assert "expected the magic TR01 or TR02" in refused(with_header(magic=magic))


@pytest.mark.parametrize("at", [0, 31, 33, START, 2**31, 2**32 - 1])
def test_metadata_that_begins_elsewhere(at: int) -> None:
    refused(with_header(at=at))


@pytest.mark.parametrize("size", [0, 1, TEXT_SIZE - 1, START - 31, 2**31, 2**32 - 1])
def test_metadata_of_another_size(size: int) -> None:
    refused(with_header(size=size))


def test_offsets_whose_sum_overflows_32_bits() -> None:
    refused(with_header(at=2**32 - 1, size=33))
    refused(with_header(at=2**32 - 16, size=48, start=2**32 - 16))


@pytest.mark.parametrize(
    "start", [0, 16, 32, START - 16, START + 1, START + 16, len(PAYLOAD) + 16, 2**32 - 16]
)
def test_a_plan_that_begins_elsewhere(start: int) -> None:
    refused(with_header(start=start))


@pytest.mark.parametrize(
    "plan",
    [0, PLAN_SIZE - 1, PLAN_SIZE + 1, 2**63, 2**64 - 1, 2**64 - START, 2**64 - START + PLAN_SIZE],
)
def test_a_plan_of_another_size(plan: int) -> None:
    assert "expected a plan of" in refused(with_header(plan=plan))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"nothing",
        b"\xff\xfe",
        b'{"io_bindings": [}',
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b"[]",
        b"null",
        b"3",
        b"{}",
        TEXT + b"x",
        TEXT[:-1] + b"\0",
        b'{"io_bindings": "\xc3\x28"}',
        b'{"io_bindings": "\\ud800"}',
        b'{"io_bindings": 1e999}',
    ],
    ids=lambda text: repr(text[:24]),
)
def test_metadata_that_is_no_json_object(text: bytes) -> None:
    refused(frame(text, RELU_PLAN))


def test_deeply_nested_values_are_passed_over_or_named_not_printed() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    fields, _ = _native.read_payload(frame(TEXT[:-1] + b',"new":' + deep + b"}", RELU_PLAN))
    assert fields["device_id"] == -1
    message = refused(frame(b'{"io_bindings":[],"device_id":' + deep + b"}", RELU_PLAN))
    assert "found array of 1 items" in message


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (with_json(io_bindings=None), "'io_bindings': expected a list, found null"),
        (with_json(io_bindings={}), "'io_bindings': expected a list, found object"),
        (with_json(io_bindings=[3]), "binding 0: expected an object, found 3"),
        (with_json(io_bindings=[{}]), "binding 0: expected the field 'name', found none"),
        (with_binding(name="gone"), "expected the field 'name'"),
        (with_binding(name=7), "binding 0: field 'name': expected a text, found 7"),
        (with_binding(1, dtype=None), "binding 1: field 'dtype': expected a text, found null"),
        (with_binding(dtype="gone"), "expected the field 'dtype'"),
        (with_binding(shape="gone"), "expected the field 'shape'"),
        (with_binding(shape=8), "field 'shape': expected a list"),
        (with_binding(shape=[-2]), "field 'shape': expected sizes or -1, found -2"),
        (with_binding(shape=[1.5]), "expected sizes or -1, found 1.5"),
        (with_binding(shape=[True]), "expected sizes or -1, found true"),
        (with_binding(shape=[2**63]), "expected sizes or -1, found 9223372036854775808"),
        (with_binding(shape=["1"]), 'expected sizes or -1, found "1"'),
        (with_binding(shape=[1] * 17), "expected at most 16 dimensions, found array of 17"),
        (with_binding(is_input="gone"), "expected the field 'is_input'"),
        (with_binding(is_input=1), "field 'is_input': expected true or false, found 1"),
        (with_json(hardware_compatible="yes"), "'hardware_compatible': expected true or false"),
        (with_json(device_id=-2), "'device_id': expected -1 or the number of a GPU, found -2"),
        (with_json(device_id=10_000), "found 10000"),
        (with_json(device_id=2**64), "'device_id'"),
        (with_json(device_id=True), "found true"),
        (with_json(device_id=0.0), "found 0.0"),
        (with_json(serialized_metadata={}), "'serialized_metadata': expected a text"),
        (with_json(target_platform=None), "'target_platform': expected a text, found null"),
        (with_json(target_platform=["x" * 9999] * 99), "found array of 99 items"),
        (with_binding(name=["\x1b[31m" * 500]), "found array of 1 items"),
        (with_json(aliased_io=3), "'aliased_io': expected a list"),
        (with_json(aliased_io=[{}]), "alias 0: expected the field 'output'"),
        (
            with_json(aliased_io=[{"output": "in_0", "input": "out_0"}]),
            'expected an alias of an output and an input of the engine, found "in_0" and "out_0"',
        ),
        (
            with_json(aliased_io=[{"output": "out_0", "input": "in_0"}]),
            "expected no aliased_io in a TR01 payload, found 1",
        ),
        (with_header(magic=b"TR02"), "expected aliased_io in a TR02 payload, found 0"),
    ],
)  # fmt: skip
def test_fields_of_the_wrong_kind(payload: bytes, message: str) -> None:
    assert message in refused(payload)


def test_an_input_behind_an_output() -> None:
    bindings = json.loads(TEXT)["io_bindings"][::-1]
    message = refused(with_json(io_bindings=bindings))
    assert (
        'expected all inputs before the outputs, found input "in_0" behind output "out_0"'
        in message
    )


def read(payload: bytes) -> Any:
    fields, start = _native.read_payload(payload)
    assert start is not None
    return info_from_payload(fields, "onnxruntime", len(payload) - start).info


def test_bindings_that_are_not_those_of_the_record() -> None:
    assert read(PAYLOAD).inputs[0].name == "in_0"
    one, two = json.loads(TEXT)["io_bindings"]
    for bindings in (
        [one, one, two],
        [one, two, two],
        [{**one, "dtype": "float16"}, two],
        [one, {**two, "dtype": "float33"}],
        [{**one, "name": "other"}, two],
        [one],
        [two],
        [],
    ):
        with pytest.raises(RecordError, match=r"puts .* of the record, found .*: lower it again"):
            read(with_json(io_bindings=bindings))


@pytest.mark.parametrize(
    "metadata",
    ["", "gASVKAAAAAAAAAB9lIwGc2NoZW1hlEsBcy4=", "[" * 100_000, "3", "null", '{"schema": 2}', "{}"],
    ids=lambda text: text[:20],
)
def test_a_record_of_another_writer_is_never_unpickled_and_the_way_out_is_named(metadata) -> None:
    """torch-tensorrt keeps a base64 pickle there."""
    with pytest.raises(
        RecordError, match=r"expected (a )?JSON .*found .*(build it again|pip install)"
    ):
        read(with_json(serialized_metadata=metadata))


def test_names_that_the_record_has_twice() -> None:
    record = json.loads(json.loads(TEXT)["serialized_metadata"])
    one, two = json.loads(TEXT)["io_bindings"]
    record["inputs"] *= 2
    with pytest.raises(RecordError, match=re.escape("found 'in_0' twice")):
        read(with_json(serialized_metadata=json.dumps(record), io_bindings=[one, one, two]))


def test_only_contiguous_memory_is_read() -> None:
    """A view of every second byte, or backwards, has its bytes elsewhere than one might think."""
    doubled = bytes(byte for pair in zip(PAYLOAD, PAYLOAD, strict=True) for byte in pair)
    for view in (memoryview(doubled)[::2], memoryview(PAYLOAD[::-1])[::-1]):
        with pytest.raises(ProgramError, match="expected contiguous bytes"):
            _native.read_payload(view)


@given(st.data())
def test_any_damage_is_read_or_refused(data: st.DataObject) -> None:
    payload = bytearray(PAYLOAD)
    for _ in range(data.draw(st.integers(1, 4))):
        payload[data.draw(st.integers(0, START - 1))] = data.draw(st.integers(0, 255))
    try:
        _, start = _native.read_payload(payload)
    except ProgramError:
        return
    assert 32 <= start <= len(payload)


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ProgramError):
        _native.read_payload(data)
