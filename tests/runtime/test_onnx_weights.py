"""ONNX Runtime reads the large weights of an `onnxruntime` plan where they lie in it."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import ModelProto, helper

from trt_runtime import Engine, PlanError, _native
from trt_runtime.executors import onnx_weights, wire
from trt_runtime.executors.memory import Region
from trt_runtime.executors.onnx_session import Session
from trt_runtime.executors.onnx_weights import detach_weights
from trt_runtime.executors.onnxruntime import OnnxRuntimeExecutor
from trt_runtime.executors.wire import WireError

from .building import plan_of, record_of, written_aligned
from .onnx_cases import CASES, Case, V, W, X, Y, arguments


def aligned(data: bytes) -> memoryview:
    """The bytes where a plan has its payload: at a multiple of 64."""
    memory = np.zeros(len(data) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    memory[start : start + len(data)] = np.frombuffer(data, np.uint8)
    return memoryview(memory)[start : start + len(data)].toreadonly()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_are_those_of_a_copy(case: Case, counted) -> None:
    data = written_aligned(case.proto())
    with counted() as grown:
        session = Session(aligned(data))
    assert len(detach_weights(memoryview(data), "file").weights) == case.shared
    assert (session.weights is not None) is (case.shared > 0)
    assert not grown
    feeds = {"x": arguments(case).numpy()}
    plain = onnxruntime.InferenceSession(data)
    np.testing.assert_array_equal(session.ort.run(["y"], feeds)[0], plain.run(["y"], feeds)[0])


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_unaligned_weights_are_copied(shift: int, counted) -> None:
    proto = CASES[0].proto()
    with counted() as grown:
        session = Session(aligned(written_aligned(proto, shift=shift)))
    assert session.weights is None
    assert grown == {"plan_copies": 1}


def test_a_payload_at_an_odd_address_is_copied_once(counted) -> None:
    proto = CASES[0].proto()
    whole = aligned(b"\0" + written_aligned(proto))
    with counted() as grown:
        session = Session(whole[1:])
    assert grown == {"plan_copies": 1}
    feeds = {"x": arguments(CASES[0]).numpy()}
    plain = onnxruntime.InferenceSession(written_aligned(proto))
    np.testing.assert_array_equal(session.ort.run(["y"], feeds)[0], plain.run(["y"], feeds)[0])


@pytest.mark.parametrize("name", ["matmul", "two", "gather", "convolution"])
def test_onnx_runtime_reads_weights_where_they_lie(name: str) -> None:
    """What is written over them changes the results, unless it has to rearrange them, as for a convolution."""
    (case,) = (case for case in CASES if case.name == name)
    data = written_aligned(case.proto())
    memory = np.frombuffer(aligned(data), np.uint8).copy()
    memory = memory if memory.ctypes.data % 8 == 0 else memory[8 - memory.ctypes.data % 8 :]
    session = Session(memoryview(memory), prepack=False)
    feeds = {"x": arguments(case).numpy()}
    before = session.ort.run(["y"], feeds)[0]
    for weight in detach_weights(memoryview(data), "file").weights:
        memory[weight.start :][: weight.nbytes] = 0
    after = session.ort.run(["y"], feeds)[0]
    assert np.abs(before).max() > 0
    assert after.any() == (name == "convolution")


def test_a_model_in_one_piece_is_read_too() -> None:
    """As `SerializeToString` writes it: all of the graph in one field, weights where they happen to lie."""
    proto = Case(
        "bytes", [("Gather", ["w", "x"], ["y"])], {"w": (W * 9).astype(np.int8)}, 1
    ).proto()
    data = proto.SerializeToString()
    found = detach_weights(memoryview(data), "file")
    slim = ModelProto.FromString(found.model)
    (tensor,) = slim.graph.initializer
    assert {entry.key: entry.value for entry in tensor.external_data} == {
        "location": "file",
        "offset": str(data.index(proto.graph.initializer[0].raw_data)),
        "length": "4096",
    }
    (weight,) = found.weights
    assert (weight.name, weight.shape, weight.nbytes) == ("w", (64, 64), 4096)
    assert data[weight.start :][:4096] == proto.graph.initializer[0].raw_data
    tensor.ClearField("external_data")
    tensor.ClearField("data_location")
    tensor.raw_data = data[weight.start :][:4096]
    assert slim == proto


PLAN = plan_of(written_aligned(CASES[2].proto()))
EXPECTED = torch.ones(4, 64) @ torch.tensor(W) @ torch.tensor(V).T


def executor(plan: _native.Plan) -> OnnxRuntimeExecutor:
    return OnnxRuntimeExecutor(Engine.from_plan(PLAN, record_of([X], [Y])).info, plan)


def test_weights_are_the_plans_memory() -> None:
    plan = _native.share_plan(PLAN)
    start = np.frombuffer(plan, np.uint8).ctypes.data
    weights = executor(plan)._session.weights
    assert start < weights.ctypes.data
    assert weights.ctypes.data + weights.nbytes == start + len(PLAN)


def test_the_plan_lives_as_long_as_what_reads_it() -> None:
    memory = np.frombuffer(PLAN, np.uint8).copy()
    plan = weakref.ref(memory)
    x, y = torch.ones(4, 64), torch.empty(4, 64)
    run = executor(_native.share_plan(memory)).bind([Region.of(x)], [Region.of(y)])
    del memory
    gc.collect()
    assert plan() is not None
    run()
    torch.testing.assert_close(y, EXPECTED, rtol=1e-5, atol=1e-4)
    del run
    gc.collect()
    assert plan() is None


def test_sessions_of_one_plan_run_at_the_same_time() -> None:
    plan = _native.share_plan(PLAN)
    found: list[torch.Tensor] = []

    def work() -> None:
        own = executor(plan)
        for _ in range(20):
            y = torch.empty(4, 64)
            own.run([torch.ones(4, 64)], [y])
            found.append(y)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 80
    for y in found:
        torch.testing.assert_close(y, EXPECTED, rtol=1e-5, atol=1e-4)


def test_an_engine_counts_no_copy(counted) -> None:
    engine = Engine.from_plan(PLAN, record_of([X], [Y]))
    with counted() as grown:
        (y,) = engine(torch.ones(4, 64))
    assert grown == {"executor_loads": 1, "plan_hashes": 1}
    torch.testing.assert_close(y, EXPECTED, rtol=1e-5, atol=1e-4)


# Damage. The walk reads nothing else than headers, and whatever it finds, ONNX Runtime has the last word.


def walk(data: bytes) -> None:
    """Either fails, or finds weights within the data."""
    try:
        found = detach_weights(memoryview(data), "file")
    except WireError:
        return
    for weight in found.weights:
        assert 0 < weight.start <= weight.start + weight.nbytes <= len(data)
        assert min(weight.shape, default=1) > 0


SOUND = CASES[-7].proto().SerializeToString()


def test_whatever_is_cut_off_or_changed_the_walk_stays_within() -> None:
    head, tail = SOUND[:600], SOUND[-200:]
    short = head + tail
    for size in range(len(short)):
        walk(short[:size])
    chance = random.Random(0)
    for _ in range(3000):
        damaged = bytearray(SOUND)
        for _ in range(chance.randint(1, 4)):
            # Near the ends: there the heads of fields are.
            near = chance.choice([range(400), range(len(SOUND) - 200, len(SOUND))])
            damaged[chance.choice(near)] = chance.randrange(256)
        walk(bytes(damaged))


@pytest.mark.parametrize(
    "data",
    [
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",  # a graph of 2**63 bytes
        b"\x3a" + b"\xff" * 20,  # a length without an end
        b"\x38\x01",  # a graph that is a number
        b"\x3b\x3c",  # a group
        b"\x3a\x02\x2a\x05",  # an initializer that goes on after its graph
        b"\x3a\x02\x28\x01",  # an initializer that is a number
        b"\x3a\x04\x2a\x02\x42\x7f",  # a name beyond the end
    ],
)
def test_damage_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        detach_weights(memoryview(data), "file")


def test_too_many_fields_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(wire, "_MOST_FIELDS", 1000)
    with pytest.raises(WireError, match="more than 1000 fields"):
        detach_weights(memoryview(b"\x08\x01" * 1001), "file")
    packed = wire.bytes_field(5, wire.bytes_field(1, b"\1" * 1001))
    with pytest.raises(WireError, match="more than 1000 fields"):
        detach_weights(memoryview(wire.bytes_field(7, packed)), "file")


@pytest.mark.parametrize("size", [0, 1, 50, 200, -17000, -1])
def test_a_model_that_is_cut_off_is_a_plan_error(size: int, counted) -> None:
    payload = written_aligned(CASES[2].proto())[:size]
    engine = Engine.from_plan(plan_of(payload), record_of([X], [Y]))
    with pytest.raises(PlanError, match=r"expected an ONNX model that ONNX Runtime .* loads"):
        engine(torch.ones(4, 64))


def test_sizes_that_are_not_the_bytes_are_left_to_onnxruntime(counted) -> None:
    proto = CASES[0].proto()
    proto.graph.initializer[0].dims[0] = 63
    engine = Engine.from_plan(plan_of(written_aligned(proto)), record_of([X], [Y]))
    with counted() as grown, pytest.raises(PlanError, match="ONNX model"):
        engine(torch.ones(4, 64))
    assert grown == {"plan_copies": 1, "plan_hashes": 1}


def test_types_have_numpys_sizes() -> None:
    for number, (name, size) in onnx_weights.TYPES.items():
        assert np.dtype(name).itemsize == size
        assert helper.tensor_dtype_to_np_dtype(number) == np.dtype(name)
