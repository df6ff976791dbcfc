"""The executor that runs anywhere."""

from __future__ import annotations

import sys

import pytest
import torch
from onnx import helper

import trt_runtime
from trt_runtime import Engine, ExecutionError, ExecutorUnavailableError, PlanError
from trt_runtime.executors.memory import Region

from .building import (
    RELU_INPUTS,
    RELU_OUTPUTS,
    binding,
    engine_of,
    model,
    plan_of,
    record_of,
    relu_engine,
)


def identity(dtype: str, shape: list[int | str], bounds: dict[int, tuple[int, int]]) -> Engine:
    return engine_of(
        [("Identity", ["in"], ["out"])],
        [binding("in", dtype, shape, bounds)],
        [binding("out", dtype, shape)],
    )


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float16", "float64", "int64", "int32", "int16", "int8", "uint8", "bool"],
)
def test_every_dtype_goes_through(dtype) -> None:
    x = torch.tensor([[0, 1, 2], [3, 0, 100]]).to(getattr(torch, dtype))
    (y,) = identity(dtype, [2, 3], {})(x)
    assert y.dtype == x.dtype
    assert torch.equal(y, x)


def test_bfloat16_is_refused_by_name() -> None:
    engine = identity("bfloat16", [2], {})
    with pytest.raises(
        ExecutorUnavailableError, match=r"binding 'in': expected one of .*, found bfloat16"
    ):
        engine(torch.ones(2, dtype=torch.bfloat16))


def test_an_engine_for_a_gpu_is_refused() -> None:
    engine = relu_engine(device="cuda:0")
    with pytest.raises(ExecutorUnavailableError, match=r"expected the device cpu .*, found cuda:0"):
        engine(torch.ones(1, 8))


def test_rank_0() -> None:
    x = torch.tensor(3.5)
    (y,) = identity("float32", [], {})(x)
    assert y.shape == ()
    assert y == x


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_empty_tensors(shape) -> None:
    engine = identity("float32", ["i0d0", "i0d1"], {0: (0, 8), 1: (0, 8)})
    assert engine(torch.empty(shape))[0].shape == shape


def test_an_output_that_is_an_input_has_memory_of_its_own() -> None:
    x = torch.ones(2, 3)
    (y,) = identity("float32", [2, 3], {})(x)
    y.zero_()
    assert x.sum() == 6


def test_one_value_as_two_outputs() -> None:
    engine = engine_of(
        [("Relu", ["in"], ["a"]), ("Identity", ["a"], ["b"])],
        [binding("in", "float32", [3], {})],
        [binding("a", "float32", [3]), binding("b", "float32", [3])],
    )
    a, b = engine(torch.tensor([-1.0, 0.0, 1.0]))
    assert torch.equal(a, b)
    a.zero_()
    assert b.sum() == 1


def test_outputs_come_in_the_records_order() -> None:
    """Bindings are matched by name: the model lists them the other way round."""
    x, y = binding("x", "float32", [2], {}), binding("y", "float32", [3], {})
    p, q = binding("p", "float32", [2]), binding("q", "float32", [3])
    payload = model([("Neg", ["x"], ["p"]), ("Relu", ["y"], ["q"])], [y, x], [q, p])
    engine = Engine.from_plan(plan_of(payload.SerializeToString()), record_of([x, y], [p, q]))
    found_p, found_q = engine(torch.ones(2), torch.ones(3))
    assert found_p.tolist() == [-1, -1]
    assert found_q.tolist() == [1, 1, 1]


def test_an_input_that_nothing_reads() -> None:
    engine = engine_of(
        [("Relu", ["a"], ["c"])],
        [binding("a", "float32", [2], {}), binding("b", "int64", [5], {})],
        [binding("c", "float32", [2])],
    )
    assert engine(torch.ones(2), torch.ones(5, dtype=torch.int64))[0].sum() == 2


def test_dtypes_of_outputs_are_the_bindings() -> None:
    engine = engine_of(
        [("Shape", ["in"], ["shape"]), ("IsNaN", ["in"], ["nan"])],
        [binding("in", "float32", ["i0d0", 2], {0: (1, 9)})],
        [binding("shape", "int64", [2]), binding("nan", "bool", ["i0d0", 2])],
    )
    shape, nan = engine(torch.tensor([[1.0, float("nan")]]))
    assert shape.tolist() == [1, 2]
    assert nan.tolist() == [[False, True]]


def test_memory_is_torchs_own() -> None:
    """No copy in or out: ONNX Runtime reads the input's and writes the output's memory."""
    x, y = torch.randn(4, 8), torch.empty(4, 8)
    run = _executor_of(relu_engine()).bind([Region.of(x)], [Region.of(y)])
    for _ in range(2):
        x.normal_()
        run()
        assert torch.equal(y, x.relu())


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (
            [binding("other", "float32", ["i0d0", 8], {0: (1, 16)})],
            RELU_OUTPUTS,
            r"expected the inputs \[\('other', 'tensor\(float\)'\)\] of the record, found \[\('in_0', ",
        ),
        (
            [binding("in_0", "float64", ["i0d0", 8], {0: (1, 16)})],
            RELU_OUTPUTS,
            r"expected the inputs \[\('in_0', 'tensor\(double\)'\)\]",
        ),
        (
            RELU_INPUTS,
            [*RELU_OUTPUTS, binding("out_1", "float32", [8])],
            r"expected the outputs .*'out_1'.* of the record, found \[\('out_0', 'tensor\(float\)'\)\]",
        ),
    ],
)
def test_a_record_of_another_model_is_refused_with_both_sets(inputs, outputs, message) -> None:
    payload = model([("Relu", ["in_0"], ["out_0"])], RELU_INPUTS, RELU_OUTPUTS).SerializeToString()
    engine = Engine.from_plan(plan_of(payload), record_of(inputs, outputs))
    dtype = getattr(torch, inputs[0]["dtype"])
    with pytest.raises(PlanError, match=message):
        engine(torch.ones(1, 8, dtype=dtype))


@pytest.mark.parametrize("payload", [b"", b"garbage" * 9], ids=["empty", "garbage"])
def test_a_payload_that_is_no_model_is_a_plan_error(payload) -> None:
    engine = Engine.from_plan(plan_of(payload), record_of(RELU_INPUTS, RELU_OUTPUTS))
    with pytest.raises(
        PlanError, match=r"expected an ONNX model that ONNX Runtime .* loads, found"
    ):
        engine(torch.ones(1, 8))


def test_an_output_of_another_shape_than_the_records_is_an_execution_error(capfd) -> None:
    outputs = [binding("out_0", "float32", ["i0d0 + 1", 8])]
    payload = model([("Relu", ["in_0"], ["out_0"])], RELU_INPUTS, RELU_OUTPUTS).SerializeToString()
    engine = Engine.from_plan(plan_of(payload), record_of(RELU_INPUTS, outputs))
    with pytest.raises(
        ExecutionError, match=r"shapes \[\[2, 8\]\] into outputs of \[\[3, 8\]\], found"
    ):
        engine(torch.ones(2, 8))
    assert capfd.readouterr() == ("", "")


def test_an_operator_that_fails_is_an_execution_error_and_silent(capfd) -> None:
    engine = engine_of(
        [("Gather", ["data", "index"], ["out"])],
        [binding("data", "float32", [4], {}), binding("index", "int64", [1], {})],
        [binding("out", "float32", [1])],
    )
    assert engine(torch.arange(4.0), torch.tensor([3]))[0].item() == 3
    with pytest.raises(ExecutionError, match=r"out of data bounds"):
        engine(torch.arange(4.0), torch.tensor([7]))
    assert capfd.readouterr() == ("", "")


def test_without_onnxruntime_everything_but_running_works(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    engine = relu_engine()
    again = Engine.deserialize(engine.serialize())
    assert again.info == engine.info
    with pytest.raises(ExecutorUnavailableError, match=r"pip install 'onnxruntime>=1.32,<2'"):
        engine(torch.ones(1, 8))


def test_a_failed_load_is_tried_again(monkeypatch) -> None:
    engine = relu_engine()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "onnxruntime", None)
        with pytest.raises(ExecutorUnavailableError):
            engine(torch.ones(1, 8))
    assert engine(torch.ones(1, 8))[0].sum() == 8


def test_the_session_keeps_no_second_copy_of_the_model() -> None:
    session = _executor_of(relu_engine())._session.ort
    assert "_model_bytes" not in vars(session)
    assert session.get_providers() == ["CPUExecutionProvider"]
    assert session.get_session_options().intra_op_num_threads == torch.get_num_threads()


def _executor_of(engine: Engine):
    from trt_runtime import _native
    from trt_runtime.executors.onnxruntime import OnnxRuntimeExecutor

    return OnnxRuntimeExecutor(engine.info, _native.engine_plan(engine.script_object))


def test_a_model_of_an_opset_that_this_onnxruntime_lacks_says_so() -> None:
    proto = model([("Relu", ["in_0"], ["out_0"])], RELU_INPUTS, RELU_OUTPUTS)
    del proto.opset_import[:]
    proto.opset_import.append(helper.make_opsetid("", 999))
    engine = Engine.from_plan(
        plan_of(proto.SerializeToString()), record_of(RELU_INPUTS, RELU_OUTPUTS)
    )
    with pytest.raises(trt_runtime.PlanError, match=r"999"):
        engine(torch.ones(1, 8))
