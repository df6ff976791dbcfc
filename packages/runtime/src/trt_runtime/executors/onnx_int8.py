"""Settings with which ONNX Runtime computes int8 models exactly on this machine.

On x86 processors without VNNI instructions, ONNX Runtime multiplies uint8 activations by int8 weights with an
instruction that adds pairs of products in 16 bits and saturates: results are off by several percent. Its setting
`session.x64quantprecision` makes the weights uint8 instead, whose products do not saturate. On processors with VNNI
that setting only halves the speed (measured: 0.40 ms became 0.90 ms for 64 x 1024 x 1024), so the processor is asked
first.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from .wire import bytes_field, varint_field

# A part of the name of each ONNX operator on int8: QuantizeLinear, QLinearConv, MatMulInteger and so on.
_OF_INT8 = (b"Linear", b"Integer")

_FAST: tuple[Mapping[str, str], ...] = ({},)
# The second is for models that ONNX Runtime 1.32 cannot open with the first: "attempt to replace the existing tensor",
# where several operators share one zero point. It computes int8 operators in float32, as PyTorch does.
_EXACT: tuple[Mapping[str, str], ...] = (
    {"session.x64quantprecision": "1"},
    {"session.disable_quant_qdq": "1"},
)

# Field numbers of onnx.proto: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
_INT8, _UINT8, _INT32 = 3, 2, 6
_ROWS, _INNER, _COLUMNS = 4, 64, 32


def int8_settings(graph: bytes | None) -> tuple[Mapping[str, str], ...]:
    """Return the session configuration entries to open a model with, in the order to try them.

    Args:
        graph: the model without its weights; None if it cannot be had. Only for a model that may have int8 operators
            is the processor asked, which takes a session of its own (12 ms).

    """
    may_have_int8 = graph is None or any(name in graph for name in _OF_INT8)
    return _EXACT if may_have_int8 and _saturates() else _FAST


@functools.cache
def _saturates() -> bool:
    """Whether ONNX Runtime's product of uint8 and int8 matrices is wrong for large numbers on this processor."""
    import numpy as np
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        _product(), options, providers=["CPUExecutionProvider"], enable_fallback=0
    )
    a = np.full((_ROWS, _INNER), 255, np.uint8)
    (found,) = session.run(None, {"a": a})
    return bool((found != 255 * 127 * _INNER).any())


def _product() -> bytes:
    """Return an ONNX model that multiplies its uint8 input by a constant int8 matrix of 127 each."""
    weight = b"".join(
        (
            *(varint_field(1, size) for size in (_INNER, _COLUMNS)),
            varint_field(2, _INT8),
            bytes_field(8, b"b"),
            bytes_field(9, bytes([127]) * (_INNER * _COLUMNS)),
        )
    )
    node = b"".join(
        (
            bytes_field(1, b"a"),
            bytes_field(1, b"b"),
            bytes_field(2, b"y"),
            bytes_field(4, b"MatMulInteger"),
        )
    )
    graph = b"".join(
        (
            bytes_field(1, node),
            bytes_field(2, b"product"),
            bytes_field(5, weight),
            bytes_field(11, _value(b"a", _UINT8, (_ROWS, _INNER))),
            bytes_field(12, _value(b"y", _INT32, (_ROWS, _COLUMNS))),
        )
    )
    opset = varint_field(2, 20)
    return varint_field(1, 9) + bytes_field(7, graph) + bytes_field(8, opset)


def _value(name: bytes, data_type: int, shape: tuple[int, ...]) -> bytes:
    dimensions = b"".join(bytes_field(1, varint_field(1, size)) for size in shape)
    tensor = varint_field(1, data_type) + bytes_field(2, dimensions)
    return bytes_field(1, name) + bytes_field(2, bytes_field(1, tensor))
