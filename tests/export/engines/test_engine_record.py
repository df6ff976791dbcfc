"""The record of an engine, as trt_runtime writes it and as files may hold it."""

import base64
import contextlib
import hashlib
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from export.programs import (
    binding,
    engine,
    plan_of,
    result,
    rtx_plan,
    two_output_engine,
)
from trt_export.engines.metadata import parse_provenance
from trt_export.engines.probe import probe
from trt_export.engines.read import EngineReader
from trt_export.engines.record import EngineRecord, check_plan
from trt_export.engines.record import parse_record as parse_fields
from trt_export.engines.slots import full_record
from trt_export.errors import (
    CorruptPlanError,
    EngineRecordError,
    TruncatedPlanError,
    UnknownPlanFormatError,
)

METADATA = {
    "schema": 1,
    "plan": {
        "format": "tensorrt-rtx",
        "size": 200,
        "sha256": hashlib.sha256(rtx_plan()).hexdigest(),
    },
    "inputs": [
        {
            "name": "a",
            "dtype": "float16",
            "shape": ["i0d0", 3],
            "min": [1, 3],
            "opt": [4, 3],
            "max": [9, 3],
        }
    ],
    "outputs": [{"name": "b", "dtype": "bool", "shape": ["i0d0 * 2"]}],
    "provenance": {"builder": "x"},
    "something_new": 7,
}


def record(**slots: str) -> list[str]:
    """A record with some slots changed; the names are those of the slots below."""
    fields = {
        "abi": "10",
        "name": "e",
        "device": "1%8%9%0%a GPU",
        "engine": base64.b64encode(rtx_plan()).decode(),
        "inputs": "a",
        "outputs": "b",
        "hardware": "1",
        "metadata": json.dumps(METADATA),
        "platform": "linux_x86_64",
        "allocator": "0",
        "allocation": "1",
        "multidevice": "0",
        "aliases": "b@a@kv_cache_update",
    }
    assert not set(slots) - set(fields)
    return list({**fields, **slots}.values())


def parse_record(slots: Sequence[object]) -> EngineRecord:
    return parse_fields(full_record(slots).metadata)


def decode_plan(slots: Sequence[object]) -> bytearray:
    return full_record(slots).decode_plan()


def test_every_slot_is_read() -> None:
    found = parse_record(record())
    assert (found.name, found.device, found.device_index) == ("e", "cuda:1", 1)
    assert found.hardware_compatible
    assert not found.requires_output_allocator
    assert found.allocation_strategy == "dynamic"
    assert not found.requires_native_multidevice
    assert found.target_platform == "linux_x86_64"
    assert [(a.output, a.input, a.kind) for a in found.aliased_io] == [
        ("b", "a", "kv_cache_update")
    ]
    assert found.provenance == {"builder": "x"}
    (taken,), (given_,) = found.inputs, found.outputs
    assert (taken.name, taken.dtype, taken.shape) == ("a", "float16", ("i0d0", 3))
    assert (taken.minimum, taken.optimum, taken.maximum) == ((1, 3), (4, 3), (9, 3))
    assert (given_.name, given_.dtype, given_.shape) == ("b", "bool", ("i0d0 * 2",))


def test_what_the_runtime_writes_is_what_is_read() -> None:
    inputs = [binding("x", "float32", "i0d0", 8), binding("y", "int64")]
    outputs = [result("z", "float32", "i0d0 + 1"), result("w", "bool")]
    object_ = engine(
        inputs,
        outputs,
        name="made by the runtime",
        hardware_compatible=True,
        aliased_io=[{"output": "z", "input": "x", "kind": "user"}],
        provenance={"builder": "runtime", "versions": [1, 2]},
    )
    reader = EngineReader(object_, probe(object_))
    found = parse_fields(reader.metadata())
    assert found.name == "made by the runtime"
    assert found.device == "cpu"
    assert found.hardware_compatible
    assert [(b.name, b.dtype, list(b.shape)) for b in found.inputs] == [
        ("x", "float32", ["i0d0", 8]),
        ("y", "int64", []),
    ]
    assert [(b.name, b.dtype, list(b.shape)) for b in found.outputs] == [
        ("z", "float32", ["i0d0 + 1"]),
        ("w", "bool", []),
    ]
    assert found.provenance == {"builder": "runtime", "versions": [1, 2]}
    assert [(a.output, a.input, a.kind) for a in found.aliased_io] == [("z", "x", "user")]
    assert bytes(reader.plan().numpy()) == plan_of(object_) == rtx_plan()
    header = check_plan(found, reader.plan().numpy().data)
    assert header.compute_capabilities == ("8.0", "8.6", "8.9")


@pytest.mark.parametrize("length", [0, 1, 7, 12, 14])
def test_the_length_is_checked_before_a_slot_is_read(length: int) -> None:
    strings = [*record(), "more"][:length]
    with pytest.raises(EngineRecordError, match=f"has 13 fields, this one has {length}"):
        parse_record(strings)


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ({"abi": "9"}, "expected an engine record of ABI 10, found '9'"),
        ({"device": "gpu"}, "expected a device .*found 'gpu'"),
        ({"device": "-1%0%0%0%cpu"}, "expected a device"),
        ({"device": "0%8%9%-1%"}, "expected a device"),
        ({"device": "0%8%9%0"}, "expected a device"),
        ({"device": "99999%8%9%0%"}, "expected a device"),
        ({"hardware": "yes"}, "'hardware-compatible' of engine 'e' must be 0 or 1, found 'yes'"),
        ({"allocator": ""}, "'requires output allocator'"),
        ({"inputs": "other"}, r"names the inputs \['other'\], its metadata names \['a'\]"),
        ({"outputs": "b%c"}, r"names the outputs \['b', 'c'\], its metadata names \['b'\]"),
        ({"metadata": "gASVCgAAAA=="}, "is not JSON.*pickle"),
        ({"metadata": "[1]"}, "expected metadata of schema 1 .*found 'list'"),
        ({"metadata": '{"schema": 2}'}, "expected metadata of schema 1 .*found 2"),
        ({"metadata": "[" * 100_000}, "is not JSON"),
        ({"aliases": "b@a"}, "expected aliased I/O as `output@input@kind`"),
        ({"aliases": "x@a@user"}, r"names the output 'x'; the engine's outputs are \['b'\]"),
        ({"aliases": "b@x@user"}, r"names the input 'x'; the engine's inputs are \['a'\]"),
    ],
)
def test_a_bad_slot_is_refused_by_name(slots: dict[str, str], message: str) -> None:
    with pytest.raises(EngineRecordError, match=message):
        parse_record(record(**slots))


@pytest.mark.parametrize(
    "change",
    [
        {"name": ""},
        {"name": "a%b"},
        {"name": 3},
        {"dtype": "complex64"},
        {"dtype": ["float32"]},
        {"shape": None},
        {"shape": [1.5]},
        {"shape": [True]},
        {"shape": [-1]},
        {"min": [1]},
        {"min": [1, -3]},
        {"max": "9"},
    ],
)
def test_a_bad_binding_is_refused(change: dict[str, object]) -> None:
    metadata = {**METADATA, "inputs": [{**METADATA["inputs"][0], **change}]}
    with pytest.raises(EngineRecordError):
        parse_record(record(metadata=json.dumps(metadata)))


def test_an_engine_without_outputs_is_refused() -> None:
    text = json.dumps({**METADATA, "outputs": []})
    with pytest.raises(EngineRecordError, match="has no outputs"):
        parse_record(record(metadata=text, outputs="", aliases=""))


@given(st.lists(st.text(max_size=40), min_size=13, max_size=13), st.integers(0, 12))
def test_any_text_in_any_slot_is_a_record_or_a_typed_error(texts: list[str], slot: int) -> None:
    strings = record()
    strings[slot] = texts[slot]
    for candidate in (strings, ["10", *texts[1:]]):
        with contextlib.suppress(EngineRecordError):
            parse_record(candidate)


def test_provenance_of_foreign_metadata_is_not_looked_for() -> None:
    assert parse_provenance("gASVCgAAAA==") == {}
    assert parse_provenance(json.dumps(METADATA)) == {"builder": "x"}


def test_an_engine_slot_that_is_not_base64() -> None:
    for text in ("====", "ab*d", "abc", "dnRyd\n"):
        with pytest.raises(CorruptPlanError, match="not base64"):
            decode_plan(record(engine=text))


def test_a_plan_that_is_not_the_one_in_the_record() -> None:
    good = parse_record(two_output_engine().__getstate__()[0])
    check_plan(good, rtx_plan())
    flipped = bytearray(rtx_plan())
    flipped[100] ^= 1
    with pytest.raises(CorruptPlanError, match="sha256"):
        check_plan(good, flipped)
    with pytest.raises(TruncatedPlanError, match="empty plan"):
        check_plan(good, b"")
    with pytest.raises(TruncatedPlanError):
        check_plan(good, rtx_plan()[:-1])
    with pytest.raises(TruncatedPlanError, match="has 300 bytes, its record says 200"):
        check_plan(good, rtx_plan(300))
    with pytest.raises(UnknownPlanFormatError, match="not a plan"):
        check_plan(good, b"what" + rtx_plan()[4:])
    with pytest.raises(
        CorruptPlanError,
        match="describes a plan of format tensorrt-rtx, found one of format tensorrt;",
    ):
        check_plan(good, b"ftrt" + rtx_plan()[4:])


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 11, 12, 13, 100])
def test_plans_of_any_size_are_decoded_by_pieces(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_export.engines.slots._PIECE", 16)
    plan = bytes(range(size))
    text = base64.b64encode(plan).decode()
    assert decode_plan(record(engine=text)) == plan
    for wrong in (f"{text}A", f"AA=={text}", f"{text}===", text.replace("A", "*") + "*"):
        if wrong not in ("AA==", "==="):
            with pytest.raises(CorruptPlanError):
                decode_plan(record(engine=wrong))


@given(st.text(alphabet="AZaz09+/=", max_size=40))
def test_the_pieces_take_what_the_whole_takes(text: str) -> None:
    from trt_export.engines import slots as module

    try:
        expected: bytes | None = base64.b64decode(text, validate=True)
    except ValueError:
        expected = None
    whole = module._PIECE
    module._PIECE = 8
    try:
        found: bytes | None = bytes(decode_plan(record(engine=text)))
    except CorruptPlanError:
        found = None
    finally:
        module._PIECE = whole
    assert found in (expected, None)
    if expected is not None and base64.b64encode(expected).decode() == text:
        assert found == expected
