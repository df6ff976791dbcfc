"""Asking an engine what it can do, through whatever holds it."""

import dataclasses
from typing import Any

import pytest
import torch

import trt_export
import trt_runtime
from export.engines.standins import methods_of
from export.programs import one_output_engine
from trt_export.engines import probe as module
from trt_export.engines.probe import (
    CAPABILITIES,
    ENGINE_TENSOR,
    METADATA_ONLY,
    NAMED_DATA_DELEGATE,
    PLAN_DIGEST,
    TRACING_MODE_REAL,
)
from trt_export.errors import EngineObjectError


class FakeScriptObject:
    """What torch traces with: it has the methods of a fake class, and the engine in `real_obj`."""

    def __init__(self, real_obj: torch.ScriptObject) -> None:
        self.real_obj = real_obj


def test_the_names_are_those_of_the_methods_that_the_engine_has() -> None:
    engine = one_output_engine()
    found = trt_export.probe(engine)
    assert found.engine_class == "trt_runtime.Engine"
    has = {item.name for item in CAPABILITIES if engine._has_method(item.method)}
    assert found.names == has
    assert {item.capability.name for item in found.missing} == {
        item.name for item in CAPABILITIES
    } - has
    for item in CAPABILITIES:
        assert (item in found) == (item.name in found) == (item.name in has)


def test_what_the_runtime_says_of_itself_is_what_is_found() -> None:
    ours = {item.name for item in CAPABILITIES}
    assert trt_export.probe(one_output_engine()).names == trt_runtime.capabilities() & ours


def test_the_answer_is_the_same_through_every_wrapper() -> None:
    engine = one_output_engine()
    face = trt_runtime.Engine.from_script_object(engine)
    expected = trt_export.probe(engine)
    for wrapped in (face, FakeScriptObject(engine)):
        assert trt_export.probe(wrapped) == expected


def test_torchs_own_fake_is_seen_through() -> None:
    from torch._library.fake_class_registry import FakeScriptObject as TorchsOwn

    engine = one_output_engine()
    fake = TorchsOwn(object(), "__torch__.torch.classes.trt_runtime.Engine", engine)
    assert trt_export.probe(fake) == trt_export.probe(engine)


@pytest.mark.parametrize("other", [None, 3, "engine", torch.ones(1), object()])
def test_something_that_is_no_engine(other: object) -> None:
    with pytest.raises(EngineObjectError, match=f"found a {type(other).__name__}"):
        trt_export.probe(other)


def test_the_answer_cannot_be_changed() -> None:
    found = trt_export.probe(one_output_engine())
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.names = frozenset()  # type: ignore[misc]
    assert isinstance(found.names, frozenset)
    assert isinstance(found.missing, tuple)


def test_a_class_is_asked_for_its_methods_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_methods", {})
    asked: list[str] = []
    engine = methods_of(one_output_engine(), on_question=asked.append)
    assert module.probe(engine) == module.probe(engine)
    assert sorted(asked) == sorted(item.method for item in CAPABILITIES)


def test_all_accessors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_methods", {})
    engine = methods_of(
        one_output_engine(),
        tracing_mode=lambda: "real",
        serialize_metadata_only=list,
        serialized_engine_tensor=lambda: torch.ones(1),
        plan_sha256=lambda: "0" * 64,
        capabilities=lambda: ["named-data-delegate", "something newer"],
    )
    found = module.probe(engine)
    assert found.names == {item.name for item in CAPABILITIES}
    assert found.missing == ()


def test_a_library_says_itself_what_its_delegate_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_methods", {})
    engine = methods_of(one_output_engine(), capabilities=lambda: ["record"])
    found = module.probe(engine)
    assert NAMED_DATA_DELEGATE not in found
    (told,) = (item.found for item in found.missing if item.capability is NAMED_DATA_DELEGATE)
    assert told == "capabilities() returns ['record']"


def test_no_accessors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_methods", {})
    found = module.probe(methods_of(one_output_engine()))
    assert found.names == set()
    assert [item.capability for item in found.missing] == [
        TRACING_MODE_REAL,
        METADATA_ONLY,
        ENGINE_TENSOR,
        PLAN_DIGEST,
        NAMED_DATA_DELEGATE,
    ]
    assert [item.found for item in found.missing] == [
        "no method tracing_mode()",
        "no method serialize_metadata_only()",
        "no method serialized_engine_tensor()",
        "no method plan_sha256()",
        "no method capabilities()",
    ]


@pytest.mark.parametrize("mode", ["Real", "fake", "", None])
def test_another_tracing_mode_is_not_the_capability_and_is_told(
    monkeypatch: pytest.MonkeyPatch, mode: Any
) -> None:
    monkeypatch.setattr(module, "_methods", {})
    found = module.probe(methods_of(one_output_engine(), tracing_mode=lambda: mode))
    assert "tracing-mode-real" not in found
    assert found.missing[0].found == f"tracing_mode() returns {mode!r}, not 'real'"


def test_the_tracing_mode_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_methods", {})
    modes = ["real", "other"]
    engine = methods_of(one_output_engine(), tracing_mode=lambda: modes.pop(0))
    assert "tracing-mode-real" in module.probe(engine)
    assert "tracing-mode-real" not in module.probe(engine)


def test_a_newer_engine_that_can_do_more_is_no_reason_to_refuse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_methods", {})
    engine = methods_of(one_output_engine(), fly=lambda: None, serialize_metadata_only=list)
    assert module.probe(engine).names == {"metadata-only"}
