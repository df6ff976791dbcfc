"""The record by field name: natively what `EngineInfo.to_mapping` is in Python."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import trt_runtime
from trt_runtime import Engine, RecordError, _native
from trt_runtime.info import EngineInfo
from trt_runtime.record import fields_from_info

from .building import RELU_PLAN, binding, record_of, relu_engine, relu_record

INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | INT64 | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="%@"), min_size=1, max_size=6)
FIELDS = ("inputs", "outputs", "plan", "schema", *EngineInfo.__dataclass_fields__)
TAKEN = ("name", "dtype", "shape", "min", "opt", "max")
DTYPES = st.sampled_from(["float32", "bfloat16", "int64", "bool"])


@st.composite
def bindings(draw: st.DrawFn, is_input: bool) -> list[dict[str, Any]]:
    made = []
    for index, name in enumerate(draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))):
        shape: list[int | str] = list(draw(st.lists(st.integers(0, 2**63 - 1), max_size=3)))
        if is_input and shape and draw(st.booleans()):
            shape[0] = f"i{index}d0"
            made.append(binding(name, draw(DTYPES), shape, {0: (1, draw(st.integers(1, 2**40)))}))
        else:
            made.append(binding(name, draw(DTYPES), shape, {} if is_input else None))
        more = draw(st.dictionaries(TEXT.filter(lambda key: key not in TAKEN), VALUES, max_size=2))
        made[-1].update(more)
    return made


@st.composite
def records(draw: st.DrawFn) -> dict[str, Any]:
    inputs, outputs = draw(bindings(True)), draw(bindings(False))
    aliases = draw(st.lists(st.tuples(st.sampled_from(outputs), st.sampled_from(inputs), NAMES)))
    more = draw(st.dictionaries(TEXT.filter(lambda key: key not in FIELDS), VALUES, max_size=3))
    return record_of(
        inputs,
        outputs,
        **more
        | {
            "name": draw(NAMES),
            "device": draw(st.sampled_from(["cpu", "cuda:0", "cuda:12"])),
            "provenance": draw(st.dictionaries(TEXT, VALUES, max_size=3)),
            "hardware_compatible": draw(st.booleans()),
            "target_platform": draw(NAMES),
            "requires_output_allocator": draw(st.booleans()),
            "resource_allocation_strategy": draw(st.sampled_from(["static", "dynamic"])),
            "requires_native_multidevice": draw(st.booleans()),
            "aliased_io": [
                {"output": output["name"], "input": source["name"], "kind": kind}
                for output, source, kind in aliases
            ],
        },
    )


def typed(value: object) -> object:
    """The value with the types of its numbers: to Python 1, 1.0 and True are equal."""
    if isinstance(value, dict):
        return {key: typed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [typed(item) for item in value]
    return type(value), repr(value)


@given(records())
def test_it_is_the_mapping_of_the_info(record: dict[str, Any]) -> None:
    engine = Engine.from_plan(b"vtrt" + bytes(9), record)
    found = engine.record()
    assert typed(found) == typed(engine.info.to_mapping())
    assert list(found) == list(engine.info.to_mapping())
    assert engine.script_object.record() == found
    again = Engine.from_plan(engine.plan, found)
    assert again.serialize() == engine.serialize()


def test_it_reads_no_byte_of_the_plan(counted) -> None:
    plan = {"format": "onnxruntime", "size": len(RELU_PLAN), "sha256": "0" * 64, "signed": [True]}
    engine = relu_engine(plan=plan)
    with counted() as grown:
        found = engine.record()
    assert grown == {}
    assert found["plan"] == plan
    assert not {"engine", "schema"} & set(found)


def test_it_is_the_callers_own() -> None:
    engine = relu_engine(provenance={"builder": ["a"]})
    engine.record()["provenance"]["builder"].append("b")
    engine.record()["inputs"].clear()
    assert engine.record() == engine.info.to_mapping()


def engine_with(metadata: str) -> Engine:
    """An engine whose metadata nobody checked, as another program may make it with the library alone."""
    info = EngineInfo.from_mapping(
        relu_record(device="cuda:0", plan={"format": "tensorrt", "size": 4, "sha256": "0" * 64})
    )
    fields = fields_from_info(info) | {"metadata": metadata}
    _native.register_executor("tensorrt", lambda *_: None, lambda *_: None)
    try:
        return Engine(_native.make_engine(_native.share_plan(b"ftrt"), fields))
    finally:
        trt_runtime.executors.register()


def metadata(more: str) -> str:
    return f'{{"schema": 1, "inputs": [], "outputs": [], "x": {more}}}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "something else at byte"),
        ("{", "something else at byte"),
        ("[1]", "JSON object, found a GenericList"),
        ('"text"', "JSON object, found a String"),
        ("{}", "schema 1, found another or none"),
        ('{"schema": true}', "schema 1, found another or none"),
        ('{"schema": 2}', "schema 1, found another or none"),
        (metadata("NaN"), "something else at byte"),
        (metadata("1e999"), "something else at byte"),
        (metadata('"\\ud800"'), "something else at byte"),
        (metadata("9223372036854775808"), "64 bits, found 9223372036854775808"),
        (metadata("18446744073709551616"), "64 bits, found one of 20 characters"),
        (metadata("-9223372036854775809"), "64 bits, found one of 20 characters"),
        (metadata("1" * 300), "64 bits, found one of 300 characters"),
        (metadata("1" * 100_000), "something else at byte"),
        (metadata("[" * 100 + "]" * 100), "at most 100 levels"),
        (metadata("[" * 1_000_000), "at most 100 levels"),
        (metadata('{"a":' * 1_000_000), "at most 100 levels"),
        (metadata("1") + "x", "something else at byte"),
    ],
    ids=lambda value: value[:60],
)
def test_metadata_that_it_has_no_value_for(text: str, message: str) -> None:
    engine = engine_with(text)
    with pytest.raises(RecordError, match=message):
        engine.record()


def test_what_is_just_within_the_bounds() -> None:
    inner = "[" * 99 + "]" * 99
    assert engine_with(metadata(inner)).record()["x"] == json.loads(inner)
    for number in (2**63 - 1, -(2**63), 0, -0.0, 1e308):
        found = engine_with(metadata(json.dumps(number))).record()["x"]
        assert (type(found), found) == (type(number), number)


def test_a_record_of_many_megabytes() -> None:
    long = {"text": "x" * 2**24, "list": list(range(100_000))}
    assert engine_with(metadata(json.dumps(long))).record()["x"] == long


def test_the_last_of_equal_keys_counts_and_slots_go_first() -> None:
    text = metadata('1, "x": 2, "name": "other", "device": "cpu", "aliased_io": 7')
    found = engine_with(text).record()
    assert (found["x"], found["name"], found["device"]) == (2, "test", "cuda:0")
    assert found["aliased_io"] == []


def test_the_capabilities_of_engine_and_module_are_one_list() -> None:
    names = relu_engine().script_object.capabilities()
    assert names == sorted(set(names))
    assert frozenset(names) == trt_runtime.capabilities()
    assert all(f"``{name}``" in trt_runtime.capabilities.__doc__ for name in names)
