"""Reading an engine: by its accessors where it has them, else by its whole state, and each part once."""

import base64
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import trt_runtime
from export.engines.standins import accessors, methods_of
from export.programs import one_output_engine, plan_of, rtx_plan, two_output_engine
from trt_export.engines.probe import CAPABILITIES, probe
from trt_export.engines.read import EngineReader
from trt_export.engines.slots import (
    FIELDS,
    FullRecord,
    MetadataRecord,
    full_record,
    metadata_record,
)
from trt_export.errors import CorruptPlanError, EngineRecordError

pytestmark = pytest.mark.usefixtures("unasked")

ACCESSORS = ("serialize_metadata_only", "serialized_engine_tensor")


class Counted:
    """A reader of an engine with some accessors, and what the engine was asked for."""

    def __init__(self, names: tuple[str, ...], **changes: Callable[[], Any]) -> None:
        self.asked: list[str] = []
        self.engine = two_output_engine()
        available = {**accessors(self.engine), **changes}
        methods = {name: self._counted(name, available[name]) for name in names}
        stand_in = methods_of(self.engine, **methods)
        type(stand_in).__getstate__ = lambda _: self._counted("state", self.engine.__getstate__)()
        self.reader = EngineReader(stand_in, probe(stand_in))

    def _counted(self, name: str, method: Callable[[], Any]) -> Callable[[], Any]:
        def call() -> Any:
            self.asked.append(name)
            return method()

        return call


@pytest.mark.parametrize(
    ("names", "for_metadata", "for_both"),
    [
        (ACCESSORS, ["serialize_metadata_only"], [*ACCESSORS]),
        (ACCESSORS[:1], ["serialize_metadata_only"], ["serialize_metadata_only", "state"]),
        (ACCESSORS[1:], ["state"], ["state", "serialized_engine_tensor"]),
        ((), ["state"], ["state"]),
    ],
    ids=["both accessors", "no plan accessor", "no record accessor", "neither"],
)
def test_each_part_is_read_once_in_the_cheapest_way(
    names: tuple[str, ...], for_metadata: list[str], for_both: list[str]
) -> None:
    counted = Counted(names)
    for _ in range(2):
        counted.reader.metadata()
    assert counted.asked == for_metadata
    for _ in range(2):
        counted.reader.plan()
    counted.reader.metadata()
    assert counted.asked == for_both


@pytest.mark.parametrize("names", [ACCESSORS, ACCESSORS[:1], ACCESSORS[1:], ()])
def test_every_way_gives_the_same(names: tuple[str, ...]) -> None:
    counted = Counted(names)
    expected = full_record(counted.engine.__getstate__()[0])
    assert counted.reader.metadata() == expected.metadata
    plan = counted.reader.plan()
    assert (plan.dtype, plan.dim()) == (torch.uint8, 1)
    assert bytes(plan.numpy()) == plan_of(counted.engine) == rtx_plan()


def test_the_plan_first_is_the_same() -> None:
    counted = Counted(())
    counted.reader.plan()
    counted.reader.metadata()
    assert counted.asked == ["state"]


def test_the_tensor_of_the_engine_is_taken_as_it_is() -> None:
    held = torch.arange(10, dtype=torch.uint8)
    assert Counted(ACCESSORS, serialized_engine_tensor=lambda: held).reader.plan() is held


def test_this_runtimes_own_accessors_and_its_state_agree() -> None:
    engine = one_output_engine()
    found = EngineReader(engine, probe(engine))
    whole = full_record(engine.__getstate__()[0])
    assert found.metadata() == whole.metadata
    assert bytes(found.plan().numpy()) == bytes(whole.decode_plan())


def test_this_runtimes_engines_are_not_serialized_if_they_need_not_be() -> None:
    engine = one_output_engine()
    capabilities = probe(engine)
    before = trt_runtime.stats()
    reader = EngineReader(engine, capabilities)
    reader.metadata(), reader.plan(), reader.metadata(), reader.plan()
    after = trt_runtime.stats()
    expected = 0 if {"metadata-only", "engine-tensor"} <= capabilities.names else 1
    for name in ("serializations", "base64_encodes"):
        assert after[name] - before[name] == expected
    assert after["plan_copies"] == before["plan_copies"]


def state() -> list[Any]:
    return [*one_output_engine().__getstate__()[0]]


def test_a_record_without_its_plan_is_of_another_type() -> None:
    whole = full_record(state())
    assert isinstance(whole, FullRecord)
    metadata = whole.metadata
    assert isinstance(metadata, MetadataRecord)
    assert not isinstance(metadata, FullRecord | list | tuple)
    assert "engine" not in metadata.fields
    assert not hasattr(metadata, "engine")
    assert not hasattr(metadata, "decode_plan")
    with pytest.raises(KeyError):
        metadata["engine"]
    with pytest.raises(TypeError):
        metadata.fields["engine"] = ""  # type: ignore[index]


def test_a_record_shows_no_plan() -> None:
    assert base64.b64encode(rtx_plan()).decode()[:20] not in repr(full_record(state()))


@pytest.mark.parametrize("engine", ["", "dnRyd", b"", 3])
def test_a_record_accessor_that_gives_an_engine_is_refused(engine: object) -> None:
    slots = state()
    slots[FIELDS.index("engine")] = engine
    with pytest.raises(EngineRecordError, match="must leave the engine slot None, found "):
        metadata_record(slots)


def test_a_whole_record_without_engine_is_refused() -> None:
    slots = state()
    slots[FIELDS.index("engine")] = None
    with pytest.raises(CorruptPlanError, match="must be base64 text, not NoneType"):
        full_record(slots)


def bad_tensors() -> Iterator[tuple[Any, str]]:
    plan = torch.zeros(8, dtype=torch.uint8)
    yield plan.to(torch.int8), r"torch\.int8 \[8\] on cpu"
    yield plan.reshape(2, 4), r"uint8 \[2, 4\]"
    yield plan[::2], r"uint8 \[4\]"
    yield plan.to("meta"), "on meta"
    yield b"plan", "found bytes"
    yield None, "found NoneType"


@pytest.mark.parametrize(("plan", "message"), [*bad_tensors()])
def test_a_plan_accessor_that_gives_something_else_is_refused(plan: Any, message: str) -> None:
    counted = Counted(ACCESSORS, serialized_engine_tensor=lambda: plan)
    with pytest.raises(EngineRecordError, match=message):
        counted.reader.plan()


def test_an_accessor_that_fails_is_a_typed_error() -> None:
    def fail() -> None:
        raise RuntimeError("no such file")

    counted = Counted(ACCESSORS, serialize_metadata_only=fail)
    with pytest.raises(
        EngineRecordError, match=r"class trt_runtime\.Engine does not answer .*no such file"
    ):
        counted.reader.metadata()


@pytest.mark.parametrize("found", [None, "text", {"ABI": "10"}])
def test_an_accessor_that_gives_no_list_is_refused(found: object) -> None:
    counted = Counted(ACCESSORS, serialize_metadata_only=lambda: found)
    with pytest.raises(EngineRecordError, match="must be a list"):
        counted.reader.metadata()


@pytest.mark.parametrize("length", [0, 1, 12, 14])
def test_the_accessors_record_has_its_length_checked_too(length: int) -> None:
    slots = [*state(), "more"]
    slots[FIELDS.index("engine")] = None
    counted = Counted(ACCESSORS, serialize_metadata_only=lambda: slots[:length])
    with pytest.raises(EngineRecordError, match=f"has 13 fields, this one has {length}"):
        counted.reader.metadata()


def test_every_capability_has_a_reason_to_be_asked_for() -> None:
    assert {item.method for item in CAPABILITIES} == {
        *ACCESSORS,
        "plan_sha256",
        "tracing_mode",
        "capabilities",
    }


def test_an_engine_that_keeps_its_digest_is_not_read_for_it() -> None:
    digest = "ab" * 32
    counted = Counted((*ACCESSORS, "plan_sha256"), plan_sha256=lambda: digest)
    assert [counted.reader.sha256(), counted.reader.sha256()] == [digest, digest]
    assert counted.asked == ["plan_sha256"]


def test_the_digest_of_an_older_engine_is_that_of_its_plan() -> None:
    counted = Counted(ACCESSORS)
    expected = hashlib.sha256(plan_of(counted.engine)).hexdigest()
    assert [counted.reader.sha256(), counted.reader.sha256()] == [expected, expected]
    assert counted.asked == ["serialized_engine_tensor"]


@pytest.mark.parametrize("digest", [None, "", "0" * 63, "G" * 64, b"0" * 64])
def test_a_digest_that_is_none_is_refused(digest: object) -> None:
    counted = Counted((*ACCESSORS, "plan_sha256"), plan_sha256=lambda: digest)
    with pytest.raises(EngineRecordError, match="must give 64 hex digits"):
        counted.reader.sha256()
