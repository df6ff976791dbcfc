"""Records that are damaged, foreign or contradictory: refused with expected and found."""

from __future__ import annotations

import base64
import copy
import io
import json
import pickle
import zipfile
from typing import Any

import pytest
import torch

import trt_runtime
from trt_runtime import AliasedIO, Engine, EngineInfo, RecordError

from .building import RELU_PLAN, binding, relu_engine, relu_record

ABI, NAME, DEVICE, ENGINE, INPUTS, OUTPUTS, HARDWARE, METADATA, PLATFORM = range(9)
OUTPUT_ALLOCATOR, ALLOCATION, MULTIDEVICE, ALIASES = range(9, 13)


@pytest.fixture
def slots() -> list[str]:
    return relu_engine().serialize()


def test_the_13_strings_are_those_of_the_contract(slots) -> None:
    metadata = json.loads(slots[METADATA])
    assert slots[ABI] == "10"
    assert slots[NAME] == "test"
    assert slots[DEVICE] == "-1%0%0%-1%cpu"
    assert base64.b64decode(slots[ENGINE], validate=True) == RELU_PLAN
    assert (slots[INPUTS], slots[OUTPUTS]) == ("in_0", "out_0")
    assert [slots[i] for i in (HARDWARE, OUTPUT_ALLOCATOR, ALLOCATION, MULTIDEVICE)] == ["0"] * 4
    assert slots[PLATFORM].startswith("linux_")
    assert slots[ALIASES] == ""
    assert metadata["schema"] == 1
    assert metadata["plan"]["size"] == len(RELU_PLAN)
    assert metadata["inputs"] == [binding("in_0", "float32", ["i0d0", 8], {0: (1, 16)})]


def test_every_slot_holds_its_field() -> None:
    inputs = [binding("a", "float32", [2], {}), binding("b", "float32", [2], {})]
    record = {
        "name": "engine",
        "device": "cuda:3",
        "inputs": inputs,
        "outputs": [binding("c", "float32", [2]), binding("d", "float32", [2])],
        "hardware_compatible": True,
        "target_platform": "linux_aarch64",
        "requires_output_allocator": True,
        "resource_allocation_strategy": "dynamic",
        "requires_native_multidevice": True,
        "aliased_io": [
            {"output": "c", "input": "b", "kind": "kv_cache"},
            {"output": "d", "input": "a", "kind": "in_place"},
        ],
    }
    slots = Engine.from_plan(b"vtrt" + bytes(60), record).serialize()
    assert slots[DEVICE] == "3%0%0%0%"
    assert (slots[INPUTS], slots[OUTPUTS]) == ("a%b", "c%d")
    assert slots[PLATFORM] == "linux_aarch64"
    assert [slots[i] for i in (HARDWARE, OUTPUT_ALLOCATOR, ALLOCATION, MULTIDEVICE)] == ["1"] * 4
    assert slots[ALIASES] == "c@b@kv_cache%d@a@in_place"
    info = Engine.deserialize(slots).info
    assert info.device == "cuda:3"
    assert info.aliased_io == (AliasedIO("c", "b", "kv_cache"), AliasedIO("d", "a", "in_place"))
    assert info.resource_allocation_strategy == "dynamic"
    assert Engine.deserialize(slots).serialize() == slots


def test_the_device_of_an_engine_built_on_a_gpu_keeps_its_text() -> None:
    slots = Engine.from_plan(b"ftrt" + bytes(60), relu_record(device="cuda:0")).serialize()
    slots[DEVICE] = "1%8%9%0%NVIDIA L4"
    engine = Engine.deserialize(slots)
    assert engine.info.device == "cuda:1"
    assert engine.serialize()[DEVICE] == "1%8%9%0%NVIDIA L4"


@pytest.mark.parametrize("length", [0, 1, 3, 12, 14, 100])
def test_another_length_is_refused_before_any_slot_is_read(slots, length) -> None:
    with pytest.raises(RecordError, match=f"expected 13 strings .ABI 10., found {length}"):
        Engine.deserialize((slots * 8)[:length])


@pytest.mark.parametrize("abi", ["", "9", "11", "010", "10 ", "ten"])
def test_another_abi_is_refused(slots, abi) -> None:
    slots[ABI] = abi
    with pytest.raises(RecordError, match=f"expected ABI '10', found '{abi}'"):
        Engine.deserialize(slots)


@pytest.mark.parametrize(
    ("slot", "text", "message"),
    [
        (ENGINE, "A", "multiple of 4, found 1 characters"),
        (ENGINE, "AAA!", "found byte 33 at position 3"),
        (ENGINE, "AA\nA", "found byte 10 at position 2"),
        (ENGINE, "AA=A", "found byte 61 at position 2"),
        (ENGINE, "A===", "found byte 61 at position 1"),
        (ENGINE, "AAAA====", "found byte 61"),
        (ENGINE, "AB==", "expected zero bits before the base64 padding"),
        (ENGINE, "AA-_", "found byte 45"),
        (NAME, "", "name: expected a text"),
        (NAME, "a%b", "name: expected a text without '%', found 'a%b'"),
        (DEVICE, "", "found ''"),
        (DEVICE, "cpu", "found 'cpu'"),
        (DEVICE, "0%0%0%0", "found '0%0%0%0'"),
        (DEVICE, "0%0%0%1%x", "found '0%0%0%1%x'"),
        (DEVICE, "-1%0%0%0%", "found '-1%0%0%0%'"),
        (DEVICE, "99999999999999999999%0%0%0%", "found '99999999999999999999%0%0%0%'"),
        (INPUTS, "", "input names: expected at least one binding"),
        (OUTPUTS, "", "output names: expected at least one binding"),
        (INPUTS, "in_0%", "found '' at index 1"),
        (INPUTS, "in@0", "found 'in@0' at index 0"),
        (INPUTS, "in_0%in_0", "found 'in_0' twice"),
        (
            INPUTS,
            "other",
            r"expected the input bindings \['other'\] in the metadata, found \['in_0'\]",
        ),
        (OUTPUTS, "other", r"expected the output bindings \['other'\]"),
        (HARDWARE, "2", "hardware-compatible: expected '0' or '1', found '2'"),
        (HARDWARE, "", "hardware-compatible: expected '0' or '1', found ''"),
        (OUTPUT_ALLOCATOR, "true", "requires output allocator"),
        (ALLOCATION, "-1", "resource allocation strategy"),
        (MULTIDEVICE, "00", "requires native multi-device"),
        (PLATFORM, "", "target platform: expected"),
        (ALIASES, "out_0@in_0", "expected 'output@input@kind', found 'out_0@in_0'"),
        (ALIASES, "out_0@in_0@k%", "expected 'output@input@kind', found ''"),
        (ALIASES, "in_0@out_0@k", "found output 'in_0' and input 'out_0'"),
        (ALIASES, "out_0@in_0@", "expected a kind"),
        (METADATA, "", "metadata: expected JSON"),
        (METADATA, "{", "metadata: expected JSON"),
        (METADATA, "[" * 100_000, "metadata: expected JSON"),
        (METADATA, "[]", "expected a JSON object of schema 1"),
        (METADATA, "{}", "expected a JSON object of schema 1, found schema None"),
        (METADATA, '{"schema": 2}', "found schema 2; install"),
        (METADATA, '{"schema": true}', "found schema True"),
        (METADATA, '{"schema": 1}', "field 'inputs': expected a list, found no such field"),
    ],
)
def test_a_damaged_slot_is_refused(slots, slot, text, message) -> None:
    slots[slot] = text
    with pytest.raises(RecordError, match=message):
        Engine.deserialize(slots)


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (b"-1%0%0%-1%cpu", b"-1%0%0%-1%gpu", "found '-1%0%0%-1%gpu'"),
        (b'"schema": 1', b'"schema": 2', "expected a JSON object of schema 1"),
        (b"b3J0c", b"=3J0c", "engine slot: expected base64"),
        (b"test", b"t\xffst", "expected UTF-8 text, found other bytes"),
    ],
)
def test_unpickling_a_damaged_file_raises_the_same(good, bad, message) -> None:
    """The file is read by torch, whose C++ calls ours and hands our errors to Python."""
    source = zipfile.ZipFile(io.BytesIO(torch._C._pickle_save(relu_engine().script_object)))
    damaged = io.BytesIO()
    with zipfile.ZipFile(damaged, "w") as archive:
        for name in source.namelist():
            archive.writestr(name, source.read(name).replace(good, bad))
    with pytest.raises(RecordError, match=message):
        torch._C._pickle_load_obj(damaged.getvalue())


def test_a_pickle_in_the_metadata_is_never_loaded(slots) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return pytest.fail, ("a pickle from a record was loaded",)

    slots[METADATA] = base64.b64encode(pickle.dumps(Trap())).decode()
    with pytest.raises(RecordError, match=r"was not made by trt-runtime"):
        Engine.deserialize(slots)


def test_the_plan_must_be_the_records(slots) -> None:
    metadata = json.loads(slots[METADATA])
    metadata["plan"]["size"] += 1
    slots[METADATA] = json.dumps(metadata)
    with pytest.raises(
        trt_runtime.PlanError, match=rf"expected a plan .* and {len(RELU_PLAN) + 1} bytes, found"
    ):
        Engine.deserialize(slots)
    metadata["plan"].update(size=len(RELU_PLAN), format="tensorrt")
    slots[METADATA] = json.dumps(metadata)
    with pytest.raises(trt_runtime.PlanError, match=r"expected a plan of format 'tensorrt'"):
        Engine.deserialize(slots)
    del metadata["plan"]
    slots[METADATA] = json.dumps(metadata)
    with pytest.raises(RecordError, match=r"field 'plan'"):
        Engine.deserialize(slots)


def _set(path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    record = copy.deepcopy(relu_record())
    target: Any = record
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return record


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("name",), 3, "field 'name': expected a value of type str, found int 3"),
        (("device",), "cuda", "expected 'cpu' or 'cuda:N', found 'cuda'"),
        (("device",), "cuda:0\n", "expected 'cpu' or 'cuda:N'"),
        (("device",), "mps", "found 'mps'"),
        (("inputs",), {}, "field 'inputs': expected a list"),
        (("inputs",), [3], "input 0: expected a mapping"),
        (("inputs", 0, "name"), "a%b", "found 'a%b' at index 0"),
        (
            ("inputs", 0, "dtype"),
            "float8",
            "input 0 'in_0': field 'dtype': expected one of float32",
        ),
        (("inputs", 0, "dtype"), ["float32"], "field 'dtype': expected a value of type str"),
        (("inputs", 0, "shape"), [-1, 8], "field 'shape'"),
        (("inputs", 0, "shape"), [True, 8], "field 'shape'"),
        (("inputs", 0, "shape"), [1.0, 8], "field 'shape'"),
        (("inputs", 0, "shape"), [2**63, 8], "field 'shape'"),
        (("inputs", 0, "shape"), "ab", "field 'shape': expected a list"),
        (("inputs", 0, "shape"), ["i0d0"], "field 'min': expected 1 ints"),
        (("inputs", 0, "shape"), ["i0d1", 8], r"found \['i0d1'\] in 'i0d1'"),
        (("inputs", 0, "shape"), ["i1d0", 8], r"found \['i1d0'\]"),
        (("inputs", 0, "shape"), ["2 ** i0d0", 8], "input 'in_0': shape expression"),
        (("inputs", 0, "min"), [1], "field 'min': expected 2 ints"),
        (
            ("inputs", 0, "min"),
            [17, 8],
            "expected min <= opt <= max in dimension 0, found 17, 16, 16",
        ),
        (("inputs", 0, "opt"), [17, 8], "expected min <= opt <= max"),
        (("inputs", 0, "max"), [16, 9], "expected min = opt = max = 8 in the static dimension 1"),
        (("inputs", 0, "max"), [True, 8], "field 'max'"),
        (
            ("outputs", 0, "shape"),
            ["i0d1"],
            r"expected expressions over .*\['i0d0'\], found \['i0d1'\]",
        ),
        (("outputs", 0, "shape"), ["import os"], "output 'out_0': shape expression"),
        (("plan",), 3, "record: plan: expected a mapping"),
        (("plan",), {"format": "x", "size": 1, "sha256": "0" * 64}, "expected one of onnxruntime"),
        (("plan",), {"format": "tensorrt", "size": -1, "sha256": "0" * 64}, "field 'size'"),
        (("plan",), {"format": "tensorrt", "size": 1, "sha256": "0" * 63}, "field 'sha256'"),
        (("plan",), {"format": "tensorrt", "size": True, "sha256": "0" * 64}, "found bool True"),
        (("provenance",), [], "field 'provenance': expected a value of type Mapping"),
        (("provenance",), {"x": object()}, "expected values that JSON can hold"),
        (("provenance",), {"x": float("nan")}, "expected values that JSON can hold"),
        (
            ("hardware_compatible",),
            1,
            "field 'hardware_compatible': expected a value of type bool, found int 1",
        ),
        (("resource_allocation_strategy",), "x", "expected one of static, dynamic, found str 'x'"),
        (
            ("aliased_io",),
            [{"output": "out_0", "input": "in_0"}],
            "field 'kind': expected a value of type str",
        ),
        (("aliased_io",), [{"output": "x", "input": "in_0", "kind": "k"}], "found output 'x'"),
    ],
)
def test_a_wrong_field_is_refused(path, value, message) -> None:
    with pytest.raises(RecordError, match=message):
        Engine.from_plan(RELU_PLAN, _set(path, value))


@pytest.mark.parametrize("field", ["name", "device", "inputs", "outputs"])
def test_a_missing_field_is_refused(field) -> None:
    record = relu_record()
    del record[field]
    with pytest.raises(RecordError, match=f"field '{field}': expected .*, found no such field"):
        EngineInfo.from_mapping(record)


def test_an_output_may_not_have_a_range() -> None:
    record = _set(("outputs", 0, "min"), [1, 8])
    assert EngineInfo.from_mapping(record).outputs[0].extra == {"min": [1, 8]}


def test_unknown_fields_stay_where_they_were() -> None:
    record = relu_record(future={"a": [1]}, provenance={"builder": "b"})
    record["inputs"] = [{**record["inputs"][0], "alias": "x"}]
    info = Engine.from_plan(RELU_PLAN, record).info
    mapping = info.to_mapping()
    assert mapping["future"] == {"a": [1]}
    assert mapping["inputs"][0]["alias"] == "x"
    assert EngineInfo.from_mapping(mapping) == info
    assert json.loads(json.dumps(mapping)) == mapping


def test_info_does_not_share_mutable_values_with_its_mapping() -> None:
    record = relu_record(provenance={"versions": [1]})
    info = EngineInfo.from_mapping(record)
    record["provenance"]["versions"].append(2)
    info.to_mapping()["provenance"]["versions"].append(3)
    assert info.provenance == {"versions": [1]}


def test_fields_have_the_defaults_of_the_contract() -> None:
    info = EngineInfo.from_mapping(relu_record())
    assert info.plan is None
    assert info.target_platform.startswith("linux_")
    assert (info.hardware_compatible, info.requires_output_allocator) == (False, False)
    assert (info.resource_allocation_strategy, info.requires_native_multidevice) == (
        "static",
        False,
    )
    assert info.aliased_io == ()


@pytest.mark.parametrize(
    "feature",
    [
        {"requires_output_allocator": True},
        {"requires_native_multidevice": True},
        {"aliased_io": [{"output": "out_0", "input": "in_0", "kind": "k"}]},
    ],
    ids=lambda feature: next(iter(feature)),
)
def test_an_engine_that_needs_more_than_this_release_can_is_kept_but_not_run(feature) -> None:
    engine = relu_engine(**feature)
    assert Engine.deserialize(engine.serialize()).info == engine.info
    with pytest.raises(trt_runtime.ExecutorUnavailableError, match=next(iter(feature))):
        engine(torch.ones(1, 8))
