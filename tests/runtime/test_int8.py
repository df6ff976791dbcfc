"""Quantized models give exact numbers with every setting that a session may be opened with."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from onnx import numpy_helper

from trt_runtime import Engine
from trt_runtime.executors import onnx_int8

from .building import Node, binding, model, plan_of, record_of

_ROWS, _INNER, _COLUMNS = 8, 256, 128
_WEIGHT = np.random.default_rng(0).integers(90, 128, (_INNER, _COLUMNS)).astype(np.int8)


def _quantized(*, one_zero_point: bool) -> Engine:
    """A linear layer of large positive int8 weights: sums of two products of these exceed 16 bits."""
    weights = {
        "scale": np.float32(0.02),
        "zero": np.int8(-128),
        "weight": _WEIGHT,
        "weight_scale": np.full(_COLUMNS, 0.01, np.float32),
        "weight_zero": np.zeros(_COLUMNS, np.int8),
        "second": np.ascontiguousarray(_WEIGHT[:_COLUMNS, :]),
        "second_zero": np.zeros(_COLUMNS, np.int8),
        "middle_scale": np.float32(8),
    }
    zero = "weight_zero" if one_zero_point else "second_zero"
    nodes: list[Node] = [
        ("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        ("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        ("DequantizeLinear", ["weight", "weight_scale", "weight_zero"], ["w"], {"axis": 1}),
        ("MatMul", ["d", "w"], ["h"]),
        ("QuantizeLinear", ["h", "middle_scale", "zero"], ["hq"]),
        ("DequantizeLinear", ["hq", "middle_scale", "zero"], ["hd"]),
        ("DequantizeLinear", ["second", "weight_scale", zero], ["v"], {"axis": 1}),
        ("MatMul", ["hd", "v"], ["y"]),
    ]
    inputs = [binding("x", "float32", [_ROWS, _INNER], {})]
    outputs = [binding("y", "float32", [_ROWS, _COLUMNS])]
    tensors = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    payload = model(nodes, inputs, outputs, tensors).SerializeToString()
    return Engine.from_plan(plan_of(payload), record_of(inputs, outputs))


def _expected(x: torch.Tensor) -> torch.Tensor:
    weight = torch.from_numpy(_WEIGHT).double() * float(np.float32(0.01))
    scale = float(np.float32(0.02))
    d = (torch.round(x.double() / scale) - 128).clamp(-128, 127).add(128) * scale
    h = (torch.round((d @ weight) / 8) - 128).clamp(-128, 127).add(128) * 8
    return h @ weight[:_COLUMNS]


@pytest.mark.parametrize("one_zero_point", [False, True])
@pytest.mark.parametrize("saturates", [None, True])
def test_int8_products_are_exact(
    monkeypatch: pytest.MonkeyPatch, saturates: bool | None, one_zero_point: bool
) -> None:
    """As this processor computes them, and with the settings for one whose fast products saturate."""
    if saturates is not None:
        monkeypatch.setattr(onnx_int8, "_saturates", lambda: saturates)
    x = torch.linspace(0, 5.1, _ROWS * _INNER).reshape(_ROWS, _INNER)
    (y,) = _quantized(one_zero_point=one_zero_point)(x)
    expected = _expected(x)
    assert float((y.double() - expected).abs().max() / expected.abs().max()) < 1e-5


def test_the_settings_are_those_of_this_processor() -> None:
    """The question is a product that saturates on x86 without VNNI, asked of ONNX Runtime itself."""
    for graph in (b"QLinearMatMul", b"DequantizeLinear", b"ConvInteger", None):
        first = onnx_int8.int8_settings(graph)[0]
        assert ("session.x64quantprecision" in first) == onnx_int8._saturates()


def test_the_processor_is_not_asked_for_a_model_without_int8(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The question is a session of its own, which the first float model of each process would wait for."""
    asked: list[None] = []
    monkeypatch.setattr(onnx_int8, "_saturates", lambda: asked.append(None))
    x = torch.linspace(0, 5.1, _ROWS * _INNER).reshape(_ROWS, _INNER)
    inputs = [binding("x", "float32", [_ROWS, _INNER], {})]
    outputs = [binding("y", "float32", [_ROWS, _INNER])]
    payload = model([("Relu", ["x"], ["y"])], inputs, outputs, []).SerializeToString()
    Engine.from_plan(plan_of(payload), record_of(inputs, outputs))(x)
    assert asked == []
    _quantized(one_zero_point=False)(x)
    assert asked
