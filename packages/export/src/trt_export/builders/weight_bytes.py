"""Reads weights as bytes, row by row, without a copy of more than a block of one that lies otherwise in memory."""

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

_BLOCK = 1 << 24
"""Bytes of a weight that are copied at a time if it is not contiguous."""


def byte_blocks(weight: ir.TensorProtocol) -> Iterator[memoryview]:
    """Yield the weight's bytes, row by row: its own memory if it is contiguous, else copies of a block at a time."""
    array = weight.numpy()
    for block in _blocks(array):
        yield block.reshape(-1).view(np.uint8).data


def _blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    if array.flags.c_contiguous or array.nbytes <= _BLOCK:
        yield np.ascontiguousarray(array)
        return
    row = array.nbytes // array.shape[0]
    if row > _BLOCK:
        for part in array:
            yield from _blocks(part)
        return
    rows = _BLOCK // row
    for start in range(0, array.shape[0], rows):
        yield np.ascontiguousarray(array[start : start + rows])
