"""The onnxruntime builder: a plan is our header and the ONNX model."""

import struct

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import trt_runtime
from export.builders.requests import matmul_request
from trt_export.builders import NodesRefused, OnnxFile, get_builder
from trt_export.builders.onnxruntime import OnnxRuntimeBuilder
from trt_export.errors import BuildFailedError, ComputeCapabilityError, UnknownBuilderError
from trt_export.plan import check_plan


def test_a_plan_holds_the_model_and_its_provenance() -> None:
    plan = get_builder("onnxruntime").build(matmul_request())
    header = check_plan(plan)
    assert header.provenance == {
        "builder": "onnxruntime",
        "builder_version": onnxruntime.__version__,
    }
    session = onnxruntime.InferenceSession(plan[header.payload_offset :])
    x = np.array([[1, -2, 3, -4]], np.float32)
    np.testing.assert_array_equal(session.run(None, {"in_0": x})[0], [[1, 0, 3, 0]])


def test_a_node_without_a_kernel_is_named() -> None:
    request = matmul_request(np.eye(4, dtype=np.int8))
    (refusal,) = get_builder("onnxruntime").check(request)
    assert refusal.onnx_node == "n0_MatMul"
    assert refusal.reason.startswith("ONNX Runtime: ")
    with pytest.raises(NodesRefused):
        get_builder("onnxruntime").build(request)


LARGE = np.random.default_rng(0).normal(size=(4, 5000)).astype(np.float32)


def test_weights_that_one_model_cannot_hold_lie_behind_it() -> None:
    plan = OnnxRuntimeBuilder(largest_model=LARGE.nbytes).build(matmul_request(LARGE))
    assert isinstance(plan, bytes)
    header = check_plan(plan)
    assert header.payload_offset is not None
    assert header.model_size is not None
    assert header.payload_size is not None
    assert header.model_size < 1000
    assert plan[-LARGE.nbytes :] == LARGE.tobytes()
    model = onnx.load_from_string(plan[header.payload_offset :][: header.model_size])
    (weight,) = model.graph.initializer
    found = {entry.key: entry.value for entry in weight.external_data}
    assert found == {"location": "weights", "offset": "0", "length": str(LARGE.nbytes)}
    assert (header.payload_offset + header.payload_size - LARGE.nbytes) % 64 == 0
    x = torch.ones(2, 4)
    (y,) = trt_runtime.Engine.from_plan(plan, record(LARGE))(x)
    torch.testing.assert_close(y, (x @ torch.from_numpy(LARGE)).relu())


def test_each_weight_behind_a_model_lies_aligned() -> None:
    weights = [np.full((4, 4 + size), size, np.float32) for size in (300, 77, 1001)]
    model = ir.from_proto(
        onnx.ModelProto.FromString(b"".join(matmul_request(LARGE).model.chunks()))
    )
    for number, weight in enumerate(weights):
        value = ir.Value(name=f"w{number}", const_value=ir.tensor(weight.T, name=f"w{number}"))
        model.graph.register_initializer(value)
    size, chunks = OnnxFile(model).external_chunks()
    content = b"".join(chunks)
    start = -(-size // 64) * 64
    assert not any(content[size:start])
    for tensor in onnx.ModelProto.FromString(content[:size]).graph.initializer:
        found = {entry.key: entry.value for entry in tensor.external_data}
        offset, length = int(found["offset"]), int(found["length"])
        assert offset % 64 == 0
        array = np.frombuffer(content[start + offset :][:length], np.float32).reshape(tensor.dims)
        expected = LARGE if tensor.name == "weight" else weights[int(tensor.name[1:])].T
        np.testing.assert_array_equal(array, expected)


def test_plans_of_models_that_fit_do_not_depend_on_the_limit() -> None:
    usual = get_builder("onnxruntime").build(matmul_request(LARGE))
    assert OnnxRuntimeBuilder(largest_model=10 * LARGE.nbytes).build(matmul_request(LARGE)) == usual
    assert isinstance(usual, bytes)
    assert struct.unpack_from("<HH", usual, 4) == (1, 0)


def test_a_runtime_that_reads_no_weights_behind_a_model_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = trt_runtime.capabilities() - {"external-weights"}
    monkeypatch.setattr(trt_runtime, "capabilities", lambda: names)
    with pytest.raises(
        BuildFailedError,
        match=r"80000 bytes.*capability external-weights, found trt-runtime \d.*pip install -U 'trt-runtime>=0.7.0'",
    ):
        OnnxRuntimeBuilder(largest_model=1000).build(matmul_request(LARGE))


def record(weight: np.ndarray) -> dict[str, object]:
    shape = {"shape": [2, 4], "min": [2, 4], "opt": [2, 4], "max": [2, 4]}
    return {
        "name": "e",
        "device": "cpu",
        "inputs": [{"name": "in_0", "dtype": "float32", **shape}],
        "outputs": [{"name": "out_0", "dtype": "float32", "shape": [2, weight.shape[1]]}],
        "provenance": {},
    }


def test_compute_capabilities_are_for_gpus() -> None:
    with pytest.raises(ComputeCapabilityError, match="runs on the CPU"):
        get_builder("onnxruntime", ["8.6"])


def test_an_unknown_builder_lists_those_there_are() -> None:
    with pytest.raises(
        UnknownBuilderError, match="'tvm'; builders: onnxruntime, tensorrt-rtx, tensorrt"
    ):
        get_builder("tvm")
