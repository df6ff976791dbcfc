"""Large weights of an `onnxruntime` plan are read where they lie in it, unless ONNX Runtime changes them."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from onnx import ModelProto, TensorProto, helper, numpy_helper

from trt_runtime import Engine, PlanError, _native
from trt_runtime.executors import onnx_weights, wire
from trt_runtime.executors.memory import Region
from trt_runtime.executors.onnx_session import Session
from trt_runtime.executors.onnx_weights import detach_weights
from trt_runtime.executors.onnxruntime import OnnxRuntimeExecutor
from trt_runtime.executors.wire import WireError

from .building import Node, binding, model, plan_of, record_of, written_aligned

_RANDOM = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return _RANDOM.standard_normal(shape).astype(np.float32)


W, V = normal(64, 64), normal(64, 64)
X = binding("x", "float32", [4, 64], {})
Y = binding("y", "float32", [4, 64])


@dataclass
class Case:
    name: str
    nodes: list[Node]
    weights: dict[str, np.ndarray[Any, Any]]
    shared: int
    """How many weights are read where they lie."""
    copies: int = 0
    x: dict[str, Any] | None = None
    y: dict[str, Any] | None = None
    change: Callable[[ModelProto], object] = lambda proto: None

    def proto(self) -> ModelProto:
        tensors = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        proto = model(self.nodes, [self.x or X], [self.y or Y], tensors)
        self.change(proto)
        return proto

    def __str__(self) -> str:
        return self.name


def image(dtype: str = "float32") -> dict[str, Any]:
    return binding("x", dtype, [1, 16, 8, 8], {})


def filtered() -> dict[str, Any]:
    return binding("y", "float32", [1, 32, 6, 6])


def indices() -> dict[str, Any]:
    return binding("x", "int64", [4], {})


def half(name: str) -> dict[str, Any]:
    return binding(name, "float16", [4, 64], {} if name == "x" else None)


def branches(proto: ModelProto) -> None:
    inner = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["inner"])],
        "inner",
        [],
        [helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)],
    )
    (node,) = (node for node in proto.graph.node if node.op_type == "If")
    node.attribute.extend(
        helper.make_attribute(name, inner) for name in ("then_branch", "else_branch")
    )


def also_an_output(proto: ModelProto) -> None:
    proto.graph.output.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64]))


def also_an_input(proto: ModelProto) -> None:
    proto.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [64, 64]))


def as_floats(proto: ModelProto) -> None:
    (tensor,) = proto.graph.initializer
    tensor.ClearField("raw_data")
    tensor.float_data.extend(W.ravel())


def in_a_sparse_tensor(proto: ModelProto) -> None:
    del proto.graph.initializer[:]
    values = helper.make_tensor("w", TensorProto.FLOAT, [2000], normal(2000))
    places = helper.make_tensor("places", TensorProto.INT64, [2000], np.arange(2000) * 2)
    proto.graph.sparse_initializer.append(helper.make_sparse_tensor(values, places, [64, 64]))


MATMUL: list[Node] = [("MatMul", ["x", "w"], ["y"])]
CASES = [
    Case("matmul", MATMUL, {"w": W}, 1),
    Case("small", [("MatMul", ["x", "w"], ["y"])], {"w": W[:, :15].copy()}, 0,
         y=binding("y", "float32", [4, 15])),
    Case("two", [("MatMul", ["x", "w"], ["h"]), ("Gemm", ["h", "v"], ["y"], {"transB": 1})],
         {"w": W, "v": V}, 2),
    Case("gather", [("Gather", ["w", "x"], ["y"])], {"w": W}, 1, x=indices()),
    Case("float16 gather", [("Gather", ["w", "x"], ["y"])], {"w": W.astype(np.float16)}, 1,
         x=indices(), y=half("y")),
    Case("bool", [("Gather", ["w", "x"], ["y"])], {"w": W > 0}, 1,
         x=indices(), y=binding("y", "bool", [4, 64])),
    Case("int64", [("Gather", ["w", "x"], ["y"])], {"w": (W * 9).astype(np.int64)}, 1,
         x=indices(), y=binding("y", "int64", [4, 64])),
    Case("float64", MATMUL, {"w": W.astype(np.float64)}, 1,
         x=binding("x", "float64", [4, 64], {}), y=binding("y", "float64", [4, 64])),
    Case("integers", [("MatMulInteger", ["x", "w"], ["y"])], {"w": (W * 20).astype(np.int8)}, 1,
         x=binding("x", "uint8", [4, 64], {}), y=binding("y", "int32", [4, 64])),
    Case("empty beside", [("Concat", ["x", "e"], ["h"], {"axis": 0}), ("MatMul", ["h", "w"], ["y"])],
         {"w": W, "e": normal(0, 64)}, 1),
    # What ONNX Runtime computes once and for all
    Case("transposed", [("Transpose", ["w"], ["t"]), ("MatMul", ["x", "t"], ["y"])], {"w": W}, 0, 1),
    Case("transposed, one of two",
         [("Transpose", ["w"], ["t"]), ("MatMul", ["x", "t"], ["h"]), ("MatMul", ["h", "v"], ["k"]),
          ("MatMul", ["k", "u"], ["y"])],
         {"w": W, "v": V, "u": W + V}, 2),
    Case("added", [("Add", ["w", "v"], ["t"]), ("MatMul", ["x", "t"], ["y"])],
         {"w": W, "v": normal(64)}, 0, 1),
    Case("reshaped", [("Constant", [], ["s"], {"value_ints": [64, 64]}), ("Reshape", ["w", "s"], ["t"]),
                      ("MatMul", ["x", "t"], ["y"])], {"w": W.ravel()}, 0, 1),
    Case("dequantized", [("DequantizeLinear", ["w", "s"], ["t"]), ("MatMul", ["x", "t"], ["y"])],
         {"w": (W * 20).astype(np.int8), "s": np.array(0.05, np.float32)}, 0, 1),
    Case("convolution", [("Conv", ["x", "w"], ["y"])], {"w": normal(32, 16, 3, 3)}, 0, 1,
         x=image(), y=filtered()),
    Case("convolution and normalization",
         [("Conv", ["x", "w"], ["h"]), ("BatchNormalization", ["h", *"abcd"], ["y"])],
         {"w": normal(32, 16, 3, 3), **{name: abs(normal(32)) for name in "abcd"}}, 0, 1,
         x=image(), y=filtered()),
    # What it cannot do to a weight elsewhere; a table is left where it is
    Case("transposed by an optimization",
         [("Transpose", ["x"], ["t"], {"perm": [1, 0]}), ("Add", ["t", "w"], ["u"]),
          ("Transpose", ["u"], ["y"], {"perm": [1, 0]})],
         {"w": W}, 0, 1, x=binding("x", "float32", [64, 64], {}), y=binding("y", "float32", [64, 64])),
    Case("float16", MATMUL, {"w": W.astype(np.float16)}, 0, 1, x=half("x"), y=half("y")),
    Case("float16 behind a table", [("Gather", ["t", "x"], ["h"]), ("MatMul", ["h", "w"], ["y"])],
         {"t": normal(100, 64).astype(np.float16), "w": W.astype(np.float16)}, 1,
         x=indices(), y=half("y")),
    # What is no plain constant
    Case("in branches",
         [("ReduceSum", ["x"], ["s"], {"keepdims": 0}), ("Cast", ["s"], ["c"], {"to": TensorProto.BOOL}),
          ("If", ["c"], ["y"])], {"w": W}, 0, 1, change=branches),
    Case("an output too", MATMUL, {"w": W}, 0, 1, change=also_an_output),
    Case("an input too", MATMUL, {"w": W}, 0, 1, change=also_an_input),
    Case("as floats", MATMUL, {"w": W}, 0, change=as_floats),
    Case("sparse", MATMUL, {"w": W}, 0, change=in_a_sparse_tensor),
    Case("not used", MATMUL, {"w": W, "v": normal(50, 50)}, 1),
]  # fmt: skip


def arguments(case: Case) -> torch.Tensor:
    x = case.x or X
    if x["dtype"] == "int64":
        return torch.tensor([0, 63, 5, 5])
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(x["shape"], generator=generator)
    return (values * (30 if x["dtype"] == "uint8" else 1)).abs().to(getattr(torch, x["dtype"]))


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
    assert len(session.weights) == case.shared
    assert grown.get("plan_copies", 0) == case.copies
    feeds = {"x": arguments(case).numpy()}
    plain = onnxruntime.InferenceSession(data)
    np.testing.assert_array_equal(session.ort.run(["y"], feeds)[0], plain.run(["y"], feeds)[0])


@pytest.mark.parametrize("shift", [1, 2, 3])
def test_unaligned_weights_are_copied(shift: int, counted) -> None:
    proto = CASES[0].proto()
    with counted() as grown:
        session = Session(aligned(written_aligned(proto, shift=shift)))
    assert not session.weights
    assert grown == {"plan_copies": 1}


def test_a_model_in_one_piece_is_read_too() -> None:
    """As `SerializeToString` writes it: all of the graph in one field, weights where they happen to lie."""
    proto = Case(
        "bytes", [("Gather", ["w", "x"], ["y"])], {"w": (W * 9).astype(np.int8)}, 1
    ).proto()
    data = proto.SerializeToString()
    found = detach_weights(memoryview(data), "file", lambda weight: True)
    slim = ModelProto.FromString(found.model)
    (tensor,) = slim.graph.initializer
    assert {entry.key: entry.value for entry in tensor.external_data} == {
        "location": "file",
        "offset": "0",
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
    for value in executor(plan)._session.weights:
        assert start < value.data_ptr() < start + len(PLAN)


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
    assert grown == {"executor_loads": 1}
    torch.testing.assert_close(y, EXPECTED, rtol=1e-5, atol=1e-4)


# Damage. The walk reads nothing else than headers, and whatever it finds, ONNX Runtime has the last word.


def walk(data: bytes) -> None:
    """Either fails, or finds weights within the data."""
    try:
        found = detach_weights(memoryview(data), "file", lambda weight: True)
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
        b"\x3a\x03\x0a\x01\x0a",  # a node that is cut off
    ],
)
def test_damage_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        detach_weights(memoryview(data), "file", lambda weight: True)


def test_too_many_fields_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(wire, "_MOST_FIELDS", 1000)
    with pytest.raises(WireError, match="more than 1000 fields"):
        detach_weights(memoryview(b"\x08\x01" * 1001), "file", lambda weight: True)
    packed = wire.bytes_field(5, wire.bytes_field(1, b"\1" * 1001))
    with pytest.raises(WireError, match="more than 1000 fields"):
        detach_weights(memoryview(wire.bytes_field(7, packed)), "file", lambda weight: True)


def test_graphs_within_graphs_have_an_end() -> None:
    graph = b""
    for _ in range(100):  # graph of a node of an attribute of ...
        graph = wire.bytes_field(1, wire.bytes_field(5, wire.bytes_field(6, graph)))
    with pytest.raises(WireError, match="graphs within graphs"):
        detach_weights(memoryview(wire.bytes_field(7, graph)), "file", lambda weight: True)


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
    assert grown == {"plan_copies": 1}


def test_types_have_numpys_sizes() -> None:
    for number, (name, size) in onnx_weights.TYPES.items():
        assert np.dtype(name).itemsize == size
        assert helper.tensor_dtype_to_np_dtype(number) == np.dtype(name)
