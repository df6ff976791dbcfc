"""A delegate's memory and TensorRT's: which addresses the engine is given, on the double."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from trt_runtime import Engine, _native
from trt_runtime.executors.memory import Region
from trt_runtime.executors.tensorrt import TensorRTExecutor

from .. import tensorrt_double
from ..building import binding, record_of, relu_record
from ..tensorrt_double import Double, TensorIOMode
from .programs import opened, payload_of, raw

PLAN = b"vtrt" + bytes(60)


@pytest.fixture
def double(monkeypatch: pytest.MonkeyPatch) -> Double:
    double = Double()
    tensorrt_double.install(monkeypatch, double, "tensorrt_rtx")
    return double


def addresses(double: Double) -> list[tuple[str, int]]:
    return [(call[1], call[2]) for call in double.calls if call[0] == "set_tensor_address"]


def shapes(double: Double) -> dict[str, tuple[int, ...]]:
    return {call[1]: call[2] for call in double.calls if call[0] == "set_input_shape"}


def on_execution(double: Double, monkeypatch: pytest.MonkeyPatch, work: Any) -> None:
    """Have the double compute: `work` is given the addresses by name."""
    original = tensorrt_double.Context.execute_async_v3

    def execute(self: Any, stream: int) -> bool:
        work(dict(addresses(double)))
        return original(self, stream)

    monkeypatch.setattr(tensorrt_double.Context, "execute_async_v3", execute)


def at(address: int, *shape: int) -> Tensor:
    return Region(address, torch.float32, shape).as_tensor()


def test_what_is_bound_goes_through_memory_of_the_gpu(double, monkeypatch) -> None:
    engine = Engine.from_plan(PLAN, relu_record(device="cuda:0"))
    executor = TensorRTExecutor(engine.info, _native.engine_plan(engine.script_object))
    x, y = torch.randn(3, 8), torch.empty(3, 8)
    run = executor.bind([Region.of(x)], [Region.of(y)])
    on_execution(
        double,
        monkeypatch,
        lambda found: at(found["out_0"], 3, 8).copy_(at(found["in_0"], 3, 8).relu()),
    )
    for _ in range(2):
        x.normal_()
        run()
        assert torch.equal(y, x.relu())
    bound = addresses(double)
    assert not {x.data_ptr(), y.data_ptr()} & {address for _, address in bound}
    assert bound[:2] == bound[2:]  # the memory is taken once, when it is bound
    assert len(set(bound)) == 2


def aliased_record() -> dict[str, Any]:
    return record_of(
        [binding("new", "float32", [4, 8], {}), binding("state", "float32", [4, 8], {})],
        [binding("sum", "float32", [4, 8]), binding("updated", "float32", [4, 8])],
        device="cuda:0",
        aliased_io=[{"output": "updated", "input": "state", "kind": "kv_cache_update"}],
    )


@pytest.mark.parametrize("shared", [True, False], ids=["one memory", "two memories"])
def test_an_aliased_output_has_the_very_address_of_its_input(double, monkeypatch, shared) -> None:
    monkeypatch.setattr(
        double,
        "names",
        {
            "new": TensorIOMode.INPUT,
            "state": TensorIOMode.INPUT,
            "sum": TensorIOMode.OUTPUT,
            "updated": TensorIOMode.OUTPUT,
        },
    )
    double.output_shape = (4, 8)
    delegate = opened(payload_of(PLAN, aliased_record(), device_id=0))
    new, state, total = torch.randn(4, 8), torch.randn(4, 8), torch.empty(4, 8)
    updated = state if shared else torch.empty(4, 8)
    run = delegate.bind([raw(new), raw(state)], [raw(total), raw(updated)])

    def compute(found: dict[str, int]) -> None:
        at(found["updated"], 4, 8).add_(at(found["new"], 4, 8))
        at(found["sum"], 4, 8).fill_(at(found["updated"], 4, 8).sum())

    on_execution(double, monkeypatch, compute)
    expected = state.clone()
    for _ in range(3):
        expected += new
        double.calls.clear()
        run()
        found = dict(addresses(double))
        assert found["updated"] == found["state"]
        assert len(set(found.values())) == 3
        assert torch.equal(state, expected)
        assert torch.equal(updated, expected)
        assert torch.equal(total, expected.sum().expand(4, 8))


def two_inputs(double: Double, monkeypatch: pytest.MonkeyPatch, shapes: Any) -> TensorRTExecutor:
    monkeypatch.setattr(
        double,
        "names",
        {"a": TensorIOMode.INPUT, "b": TensorIOMode.INPUT, "out_0": TensorIOMode.OUTPUT},
    )
    record = record_of(
        [binding(name, "float32", shape, {0: (0, 64)}) for name, shape in shapes],
        [binding("out_0", "float32", [2, 8])],
        device="cuda:0",
    )
    engine = Engine.from_plan(PLAN, record)
    double.output_shape = (2, 8)
    return TensorRTExecutor(engine.info, _native.engine_plan(engine.script_object))


def test_one_memory_in_two_shapes_is_given_in_both(double, monkeypatch) -> None:
    """ExecuTorch makes views of `view_copy`: an engine may take a tensor and a view of it."""
    executor = two_inputs(double, monkeypatch, [("a", ["i0d0", 8]), ("b", ["i1d0", 4])])
    x, y = torch.randn(2, 8), torch.empty(2, 8)
    run = executor.bind([Region.of(x), Region.of(x.view(4, 4))], [Region.of(y)])
    run()
    assert shapes(double) == {"a": (2, 8), "b": (4, 4)}
    found = dict(addresses(double))
    assert found["a"] == found["b"]
    assert torch.equal(at(found["b"], 4, 4), x.view(4, 4))


def test_empty_tensors_at_the_address_of_others_keep_their_shapes(double, monkeypatch) -> None:
    executor = two_inputs(double, monkeypatch, [("a", ["i0d0", 8]), ("b", ["i1d0", 4])])
    y = torch.zeros(2, 8)
    empty = Region(y.data_ptr(), torch.float32, (0, 8))
    executor.bind([empty, empty._replace(shape=(0, 4))], [Region.of(y)])()
    assert shapes(double) == {"a": (0, 8), "b": (0, 4)}
    executor.bind(
        [Region(0, torch.float32, (0, 8)), Region(0, torch.float32, (0, 4))], [Region.of(y)]
    )()
    assert all(address for _, address in addresses(double))
