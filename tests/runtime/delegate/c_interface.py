"""The C interface of libtrt_runtime.so by ctypes: what ExecuTorch's side of the delegate calls."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from trt_runtime import _native

from .programs import NUMBERS

OK, INCOMPATIBLE, INVALID_ARGUMENT, BUSY, FAILED = range(5)
# Beside the extension module, which an editable install has in another folder than the Python files.
LIBRARY = ctypes.CDLL(str(Path(_native.__file__).with_name("libtrt_runtime.so")))
MESSAGE_SIZE = 2048


class CTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("sizes", ctypes.POINTER(ctypes.c_int32)),
        ("rank", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
    )


Release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Resize = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.POINTER(ctypes.c_int32),
    ctypes.POINTER(ctypes.c_void_p),
)


class COwner(ctypes.Structure):
    _fields_ = (("release", Release), ("context", ctypes.c_void_p))


class CBuffer(ctypes.Structure):
    _fields_ = (("data", ctypes.c_void_p), ("size", ctypes.c_size_t), ("owner", COwner))


Find = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(CBuffer))


class CData(ctypes.Structure):
    _fields_ = (("find", Find), ("context", ctypes.c_void_p))


class CResizer(ctypes.Structure):
    _fields_ = (("resize", Resize), ("context", ctypes.c_void_p))


class CMessage(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char_p), ("capacity", ctypes.c_size_t))


class Delegate:
    """A delegate made of a payload and the program's named data.

    `released` counts how often memory was given back: once for the payload, and once for each piece of named data that
    was found.
    """

    def __init__(
        self,
        payload: bytes,
        message_size: int = MESSAGE_SIZE,
        named_data: Mapping[str, bytes] | None = None,
    ) -> None:
        self.released = 0
        self._named_data = {key: ctypes.c_char_p(data) for key, data in (named_data or {}).items()}
        self._sizes = {key: len(data) for key, data in (named_data or {}).items()}
        self._find = Find(self._find_data)
        self._payload = payload
        self._release = Release(self._count)
        self._text = ctypes.create_string_buffer(max(message_size, 1))
        self._message = CMessage(ctypes.cast(self._text, ctypes.c_char_p), message_size)
        self._handle = ctypes.c_void_p()
        self.status = LIBRARY.trt_delegate_open(
            ctypes.c_char_p(payload),
            ctypes.c_size_t(len(payload)),
            COwner(self._release, None),
            CData(self._find, None),
            ctypes.byref(self._handle),
            self._message,
        )

    def _find_data(self, context: Any, key: bytes, found: Any) -> int:
        data = self._named_data.get(key.decode())
        if data is None:
            return 1
        address = ctypes.cast(data, ctypes.c_void_p).value
        found[0] = CBuffer(address, self._sizes[key.decode()], COwner(self._release, None))
        return 0

    def _count(self, context: Any) -> None:
        self.released += 1

    @property
    def message(self) -> str:
        return self._text.value.decode()

    def execute(
        self,
        arguments: Sequence[Tensor],
        resize: Callable[[int, list[int]], int | None] | None = None,
        dtypes: Sequence[int] | None = None,
    ) -> int:
        """Run it; `resize` gives an output's address for its new sizes, None if there is no room."""
        tensors = (CTensor * len(arguments))()
        keep = []
        for index, tensor in enumerate(arguments):
            sizes = (ctypes.c_int32 * max(tensor.dim(), 1))(*tensor.shape)
            keep.append(sizes)
            dtype = NUMBERS[tensor.dtype] if dtypes is None else dtypes[index]
            tensors[index] = CTensor(tensor.data_ptr(), sizes, tensor.dim(), dtype)

        def moved(context: Any, index: int, sizes: Any, data: Any) -> int:
            shape = list(sizes[: arguments[index].dim()])
            address = arguments[index].data_ptr() if resize is None else resize(index, shape)
            if address is None:
                return 1
            data[0] = address
            return 0

        callback = Resize(moved)
        status: int = LIBRARY.trt_delegate_execute(
            self._handle,
            tensors,
            ctypes.c_size_t(len(arguments)),
            CResizer(callback, None),
            self._message,
        )
        return status

    def close(self) -> None:
        handle, self._handle = self._handle, ctypes.c_void_p()
        if handle:
            LIBRARY.trt_delegate_close(handle)

    def __del__(self) -> None:
        self.close()
