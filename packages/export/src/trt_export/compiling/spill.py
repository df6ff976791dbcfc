"""Keeps weights that optimizations of an ONNX model make in a temporary file, so that they take no memory."""

import contextlib
import mmap
import tempfile

import numpy as np
import onnx_ir as ir

from trt_export.builders import byte_blocks

_LARGE = 1 << 18
"""Bytes of weights that are worth a mapping."""


class SpillFile:
    """A file without a name; what was put into it is there as long as somebody uses it."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="trt-export-")  # noqa: SIM115  (`close`)
        self._size = 0

    def close(self) -> None:
        """Close the file; its mappings stay."""
        self._file.close()

    def put(self, tensor: ir.TensorProtocol) -> np.ndarray:
        """Write a tensor and return it as a read-only array over the file.

        Raises:
            OSError: there is no room for it.
        """
        start = -(-self._size // mmap.ALLOCATIONGRANULARITY) * mmap.ALLOCATIONGRANULARITY
        self._file.seek(start)
        self._file.writelines(byte_blocks(tensor))
        self._file.flush()
        self._size = start + tensor.nbytes
        memory = mmap.mmap(
            self._file.fileno(), tensor.nbytes, access=mmap.ACCESS_READ, offset=start
        )
        array = tensor.numpy()
        return np.frombuffer(memory, array.dtype).reshape(array.shape)


def spill(value: ir.Value, file: SpillFile) -> None:
    """Move the constant of a value into the file if it is large and not one of the program's own weights."""
    tensor = value.const_value
    if type(tensor) is not ir.Tensor or tensor.nbytes < _LARGE:
        return
    if isinstance(tensor.raw, np.ndarray) and tensor.raw.base is not None:
        return  # a view of other memory, or in the file already
    with contextlib.suppress(OSError):  # no room: it stays in memory
        value.const_value = ir.Tensor(
            file.put(tensor), dtype=tensor.dtype, shape=tensor.shape, name=tensor.name
        )
