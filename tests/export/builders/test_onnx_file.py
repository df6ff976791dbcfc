"""ONNX models are written without copying their weights, and read back as what they were."""

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from export.builders.requests import matmul_request
from trt_export.builders import weight_bytes

LARGE = np.random.default_rng(0).normal(size=(4, 200)).astype(np.float32)
SMALL = LARGE[:, :3].copy()


@pytest.mark.parametrize("weight", [LARGE, SMALL], ids=["large", "small"])
def test_the_pieces_are_one_valid_model(weight: np.ndarray) -> None:
    model = onnx.load_from_string(b"".join(matmul_request(weight).model.chunks()))
    onnx.checker.check_model(model, full_check=True)
    (initializer,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(initializer), weight)


def test_the_pieces_run_in_onnxruntime() -> None:
    session = onnxruntime.InferenceSession(b"".join(matmul_request(LARGE).model.chunks()))
    x = np.ones((2, 4), np.float32)
    np.testing.assert_allclose(
        session.run(None, {"in_0": x})[0], np.maximum(x @ LARGE, 0), rtol=1e-5
    )


def test_a_weight_is_a_view_of_its_memory() -> None:
    pieces = list(matmul_request(LARGE).model.chunks())
    addresses = [np.frombuffer(piece, np.uint8).ctypes.data for piece in pieces]
    assert LARGE.ctypes.data in addresses


@pytest.mark.parametrize("columns", [200, 500, 777, 5000, 10_000])
def test_large_weights_lie_aligned(columns: int) -> None:
    """Whatever the lengths before them are, and however many bytes those take."""
    for name in ("", "x" * 50, "x" * 130):
        weight = np.ones((4, columns), np.float32)
        pieces = list(matmul_request(weight, named=f"weight{name}").model.chunks())
        *before, data = [piece.nbytes for piece in pieces]
        assert data == weight.nbytes
        assert sum(before) % 64 == 0
        assert sum(before) < 1000
        onnx.checker.check_model(onnx.load_from_string(b"".join(pieces)), full_check=True)


def test_a_weight_that_is_no_row_by_row_tensor_is_written_row_by_row() -> None:
    weight = np.arange(12, dtype=np.float32).reshape(3, 4).T
    model = onnx.load_from_string(b"".join(matmul_request(weight).model.chunks()))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(model.graph.initializer[0]), weight)


def test_a_weight_that_is_no_row_by_row_tensor_is_copied_a_block_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(weight_bytes, "_BLOCK", 1000)
    for shape, order in (((50, 40), (1, 0)), ((3, 4, 500), (2, 0, 1)), ((1, 9, 400), (0, 2, 1))):
        array = np.random.default_rng(1).normal(size=shape).astype(np.float32).transpose(order)
        blocks = list(weight_bytes.byte_blocks(ir.tensor(array)))
        assert max(block.nbytes for block in blocks) <= 1000
        assert b"".join(blocks) == array.tobytes()


def test_large_weights_are_external_in_a_directory(tmp_path: Path) -> None:
    path = matmul_request(LARGE).model.write(tmp_path)
    assert (tmp_path / "weights").stat().st_size == LARGE.nbytes
    assert path.stat().st_size < 1000
    (initializer,) = onnx.load(path).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(initializer), LARGE)


def test_without_weights_large_ones_are_inputs_and_small_ones_stay() -> None:
    assert [value.name for value in matmul_request(LARGE).model.without_weights().graph.input] == [
        "in_0",
        "weight",
    ]
    assert [value.name for value in matmul_request(SMALL).model.without_weights().graph.input] == [
        "in_0"
    ]


def test_the_model_that_it_was_made_of_keeps_its_weights() -> None:
    request = matmul_request(LARGE)
    assert request.model.weights_size == LARGE.nbytes
    assert b"".join(request.model.chunks()) == b"".join(request.model.chunks())


@pytest.mark.parametrize(
    ("message", "node"),
    [
        ("In node 1 with name: n1_Relu and operator: Relu", "n1_Relu"),
        ("Quantized constant (weight) is only allowed", "n0_MatMul"),
        ("output 'product' has an unknown type", "n0_MatMul"),
        ("the product of n11_Relu and an0_MatMul", None),
        ("out of memory", None),
    ],
)
def test_a_message_names_a_node_by_itself_or_by_its_values(message: str, node: str | None) -> None:
    assert matmul_request().model.named_node(message) == node
