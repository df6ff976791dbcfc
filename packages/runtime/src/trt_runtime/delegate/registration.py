"""Puts the delegate into the ExecuTorch of this process."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import threading
from pathlib import Path
from types import ModuleType

from .. import _native
from ..errors import DelegateNameTakenError, ExecutorUnavailableError, UsageError
from .engine import register as register_engines

BACKEND_ID = "TrtRuntimeBackend"
# The name of torch-tensorrt's; ours takes it for files with inline plans, if it is free.
INLINE_BACKEND_ID = "TensorRTBackend"
INSTALL = "pip install 'trt-runtime[executorch]'"
# What trt_delegate_register returns.
_REGISTERED, _TAKEN = 0, 1

_is_log_replaced = False
_lock = threading.RLock()  # a signal handler may load a program while its thread does


def register_delegate() -> None:
    """Register the delegate in ExecuTorch's Python runtime; again is harmless.

    Its name is ``TrtRuntimeBackend``, and ``TensorRTBackend`` for files that have their plans inline.
    `trt_runtime.load` does it by itself. Call it to run programs with `executorch.runtime` directly. ExecuTorch's log
    is replaced unless the environment variable TRT_RUNTIME_EXECUTORCH_LOG says otherwise (docs/delegate.md).

    Raises:
        ExecutorUnavailableError: ExecuTorch is missing or does not load the delegate.
        DelegateNameTakenError: another library has registered a ``TensorRTBackend``, which is left alone;
            files for ``TrtRuntimeBackend`` run all the same.
        UsageError: TRT_RUNTIME_EXECUTORCH_LOG has another value than those that it may have.

    """
    global _is_log_replaced
    with _lock:
        mode = _log_mode()
        library = _load(portable_library())
        if mode is not None:
            _native.set_log_mode(mode)
            if not _is_log_replaced:
                library.trt_delegate_replace_log()
                _is_log_replaced = True
        register_engines()
        for name, is_inline in ((BACKEND_ID, False), (INLINE_BACKEND_ID, True)):
            outcome = library.trt_delegate_register(is_inline)
            if outcome == _TAKEN:
                raise DelegateNameTakenError(
                    f"ExecuTorch: expected no backend {name!r} but trt-runtime's, found that of another "
                    "library (likely torch-tensorrt's); it stays as it is: run the program in a process that "
                    "does not load that library, or lower it in the format named-data"
                )
            if outcome != _REGISTERED:
                raise ExecutorUnavailableError(
                    f"ExecuTorch: expected room for the backend {name!r}, found its registry full; load "
                    "fewer backends into this process"
                )


_LOG = "TRT_RUNTIME_EXECUTORCH_LOG"
_LOG_MODES = {
    "": _native.LogMode.UNEXPLAINED,
    "all": _native.LogMode.ALL,
    "off": _native.LogMode.NONE,
    "executorch": None,
}


def _log_mode() -> _native.LogMode | None:
    """What becomes of ExecuTorch's messages; None: its log is left as it is. Raises UsageError."""
    value = os.environ.get(_LOG, "")
    if value not in _LOG_MODES:
        raise UsageError(
            f"{_LOG}: expected all, off or executorch, found {value!r:.40}; set it to one of them, or unset it"
        )
    return _LOG_MODES[value]


def portable_library() -> ModuleType:
    """Import ExecuTorch's Python runtime; raises ExecutorUnavailableError."""
    try:
        from executorch.extension.pybindings import portable_lib
    except ImportError as error:
        raise ExecutorUnavailableError(
            f"expected the package executorch to run a .pte, found: {error}; {INSTALL}"
        ) from error
    library: ModuleType = portable_lib
    return library


def _extension(portable: ModuleType) -> str:
    """The file of the extension module behind ExecuTorch's runtime, whose name depends on its version."""
    package = portable.__name__.rpartition(".")[0]
    for name in ("_portable_lib", "_C"):  # 1.4, 1.5
        module = sys.modules.get(f"{package}.{name}")
        if module is not None and module.__file__ is not None:
            return module.__file__
    raise ExecutorUnavailableError(
        f"ExecuTorch: expected a version whose Python runtime trt-runtime knows, found another one in "
        f"{package}; {INSTALL}"
    )


def _load(portable: ModuleType) -> ctypes.PyDLL:
    """Load the delegate's library against the ExecuTorch that is in the process."""
    # The delegate links nothing of ExecuTorch, so that it meets the one registry of backends that the
    # process has. Python loads extension modules where others cannot see them: make it visible.
    ctypes.CDLL(_extension(portable), os.RTLD_NOLOAD | os.RTLD_GLOBAL | os.RTLD_NOW)
    spec = importlib.util.find_spec("trt_runtime._native")
    assert spec is not None
    assert spec.origin is not None  # loaded already
    path = Path(spec.origin).with_name("libtrt_runtime_delegate.so")
    try:
        return ctypes.PyDLL(str(path))  # with the GIL: no call of ExecuTorch is under way meanwhile
    except OSError as error:
        raise ExecutorUnavailableError(
            f"trt-runtime: expected the delegate to load beside ExecuTorch, found: {error}; the two do not "
            f"fit each other: {INSTALL}"
        ) from error
