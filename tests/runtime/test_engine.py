"""An engine: made of a plan and a record, lazy, saved and copied whole."""

from __future__ import annotations

import copy
import gc
import hashlib
import pickle
import sys
from dataclasses import FrozenInstanceError
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch

import trt_runtime
from trt_runtime import Engine

from .building import RELU_PLAN, relu_engine, relu_record


def test_runs() -> None:
    x = torch.randn(3, 8)
    (y,) = relu_engine()(x)
    assert torch.equal(y, x.relu())


def test_is_loaded_by_the_first_execution_and_only_once(counted) -> None:
    with counted() as grown:
        engine = relu_engine()
        _ = engine.info, engine.plan, repr(engine)
    assert grown == {"plan_hashes": 1}  # for the record, which does not name its plan
    with counted() as grown:
        engine(torch.randn(2, 8))
        engine(torch.randn(5, 8))
    assert grown == {
        "executor_loads": 1,
        "plan_hashes": 1,
    }  # the sum in the plan's header is compared


def test_a_plan_whose_payload_is_garbage_is_only_found_out_when_it_runs() -> None:
    """Nothing beyond the header is read before, so even this makes an engine."""
    damaged = RELU_PLAN[:-8] + bytes(8)
    record = relu_record(
        plan={
            "format": "onnxruntime",
            "size": len(RELU_PLAN),
            "sha256": hashlib.sha256(RELU_PLAN).hexdigest(),
        }
    )
    engine = Engine.from_plan(damaged, record)
    assert engine.info.plan.size == len(RELU_PLAN)
    with pytest.raises(
        trt_runtime.PlanError, match=r"expected the sha256 [0-9a-f]{64} of the plan, found"
    ):
        engine(torch.randn(1, 8))


def test_a_record_made_of_a_damaged_plan_does_not_hide_the_damage() -> None:
    engine = Engine.from_plan(RELU_PLAN[:-8] + bytes(8), relu_record())
    with pytest.raises(trt_runtime.PlanError, match=r"of the payload of the plan"):
        engine(torch.randn(1, 8))


def test_bytes_are_held_without_a_copy(counted) -> None:
    plan = bytes(RELU_PLAN)
    with counted() as grown:
        engine = Engine.from_plan(plan, relu_record())
    assert grown == {"plan_hashes": 1}
    assert _address(engine.plan) == _address(plan)


def test_the_plan_of_another_engine_is_held_without_a_copy(counted) -> None:
    first = relu_engine()
    with counted() as grown:
        second = Engine.from_plan(first.plan, relu_record())
    assert grown == {}
    assert _address(second.plan) == _address(first.plan)


@pytest.mark.parametrize(
    "make",
    [
        bytearray,
        lambda plan: memoryview(bytearray(plan)).toreadonly(),
        lambda plan: np.frombuffer(plan, np.uint8).copy(),
    ],
    ids=["bytearray", "read-only view of a bytearray", "array"],
)
def test_a_buffer_that_can_change_is_copied_once(make, counted) -> None:
    buffer = make(RELU_PLAN)
    with counted() as grown:
        engine = Engine.from_plan(buffer, relu_record())
    assert grown == {"plan_copies": 1, "plan_hashes": 1}
    _writable(buffer)[:] = 0
    assert bytes(engine.plan) == RELU_PLAN


@pytest.mark.parametrize("path_type", [str, Path])
def test_a_path_is_read(path_type, tmp_path) -> None:
    path = tmp_path / "engine.plan"
    path.write_bytes(RELU_PLAN)
    engine = Engine.from_plan(path_type(path), relu_record())
    path.unlink()
    assert bytes(engine.plan) == RELU_PLAN
    assert engine(torch.ones(1, 8))[0].sum() == 8


def test_what_is_no_plan_is_refused() -> None:
    with pytest.raises(
        trt_runtime.PlanError, match=r"expected a path or contiguous bytes, found int"
    ):
        Engine.from_plan(3, relu_record())
    with pytest.raises(trt_runtime.PlanError, match=r"found memoryview .*C-contiguous"):
        Engine.from_plan(memoryview(RELU_PLAN)[::2], relu_record())
    with pytest.raises(FileNotFoundError):
        Engine.from_plan("no/such/file", relu_record())


def test_the_plan_is_a_read_only_view_that_outlives_the_engine() -> None:
    plan = bytes(RELU_PLAN)
    view = Engine.from_plan(plan, relu_record()).plan
    gc.collect()
    assert view.readonly
    assert view.nbytes == len(plan)
    with pytest.raises(TypeError):
        view[0] = 0
    assert bytes(view) == RELU_PLAN


def test_the_plan_is_let_go_by_the_last_that_holds_it() -> None:
    plan = bytes(bytearray(RELU_PLAN))
    references = sys.getrefcount(plan)
    engine = Engine.from_plan(plan, relu_record())
    view = engine.plan
    engine(torch.ones(1, 8))
    del engine
    gc.collect()
    assert sys.getrefcount(plan) > references
    del view
    gc.collect()
    assert sys.getrefcount(plan) == references


def test_info_is_the_record_and_frozen() -> None:
    info = relu_engine(provenance={"builder": "onnxruntime"}).info
    assert info.name == "test"
    assert info.device == "cpu"
    assert info.inputs[0].shape == ("i0d0", 8)
    assert (info.inputs[0].min, info.inputs[0].max) == ((1, 8), (16, 8))
    assert info.outputs[0].torch_dtype == torch.float32
    assert info.plan.format == "onnxruntime"
    assert info.plan.sha256 == hashlib.sha256(RELU_PLAN).hexdigest()
    assert info.provenance == {"builder": "onnxruntime"}
    with pytest.raises(FrozenInstanceError):
        info.name = "other"


def test_an_engine_is_made_of_its_own_info() -> None:
    engine = relu_engine()
    again = Engine.from_plan(engine.plan, engine.info)
    assert again.info == engine.info
    assert again.serialize() == engine.serialize()


def test_serialize_gives_what_deserialize_takes(counted) -> None:
    engine = relu_engine(
        hardware_compatible=True, resource_allocation_strategy="dynamic", future=[1]
    )
    with counted() as grown:
        slots = engine.serialize()
    assert grown == {"serializations": 1, "base64_encodes": 1}
    with counted() as grown:
        again = Engine.deserialize(slots)
    assert grown == {"deserializations": 1, "base64_decodes": 1}
    assert again.info == engine.info
    assert again.info.extra == {"future": [1]}
    assert bytes(again.plan) == RELU_PLAN


@pytest.mark.parametrize(
    "duplicate",
    [copy.deepcopy, copy.copy, lambda engine: pickle.loads(pickle.dumps(engine))],
    ids=["deepcopy", "copy", "pickle"],
)
def test_copies_run(duplicate) -> None:
    engine = relu_engine()
    engine(torch.ones(1, 8))
    again = duplicate(engine)
    x = torch.randn(4, 8)
    assert torch.equal(again(x)[0], engine(x)[0])
    assert again.info == engine.info


def test_the_flattened_engine_is_its_full_record() -> None:
    engine = relu_engine()
    assert engine.script_object.__obj_flatten__() == (("record", engine.serialize()),)


def test_the_capabilities_are_what_an_engine_has_methods_for() -> None:
    methods = {
        "tracing-mode-real": "tracing_mode",
        "metadata-only": "serialize_metadata_only",
        "engine-tensor": "serialized_engine_tensor",
        "record": "record",
        "plan-digest": "plan_sha256",
    }
    others = {
        "tensor-state",
        "mapped-plans",
        "named-data-delegate",
        "exact-int8",
        "external-weights",
    }
    assert trt_runtime.capabilities() == {*methods} | others
    assert all(map(relu_engine().script_object._has_method, methods.values()))


def test_the_public_names_are_there() -> None:
    assert all(hasattr(trt_runtime, name) for name in trt_runtime.__all__)
    assert trt_runtime.__version__ == version("trt-runtime")


def _address(buffer: object) -> int:
    return np.frombuffer(buffer, np.uint8).ctypes.data


def _writable(buffer: object) -> memoryview | np.ndarray:
    return np.frombuffer(buffer.obj if isinstance(buffer, memoryview) else buffer, np.uint8)
