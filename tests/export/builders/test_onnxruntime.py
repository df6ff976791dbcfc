"""The onnxruntime builder: a plan is our header and the ONNX model."""

import numpy as np
import onnxruntime
import pytest

from export.builders.requests import matmul_request
from trt_export.builders import NodesRefused, OnnxFile, get_builder
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


def test_a_model_of_two_gibibytes_is_refused_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OnnxFile, "weights_size", property(lambda self: 2**31))
    with pytest.raises(
        BuildFailedError, match=r"2147483648 bytes.*split the model, or build it for TensorRT"
    ):
        get_builder("onnxruntime").build(matmul_request())


def test_compute_capabilities_are_for_gpus() -> None:
    with pytest.raises(ComputeCapabilityError, match="runs on the CPU"):
        get_builder("onnxruntime", ["8.6"])


def test_an_unknown_builder_lists_those_there_are() -> None:
    with pytest.raises(
        UnknownBuilderError, match="'tvm'; builders: onnxruntime, tensorrt-rtx, tensorrt"
    ):
        get_builder("tvm")
