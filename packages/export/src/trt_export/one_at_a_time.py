"""One export at a time in a process.

An export changes tables of torch, torch.onnx and ExecuTorch for its duration: shapes of a program (symbols.py), caches
of fake tensors and graph nodes (delegate/caches.py), levels of loggers and the registry of converters
(compiling/torch_onnx.py), the state of the random numbers (compiling/verify.py). None of them has a lock of its own, so
the exports of other threads wait.
"""

import functools
import os
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

# Not a plain lock: a signal handler, or a callback for progress, may export in the middle of an export. All that is
# changed meanwhile is put back in the reverse order.
_lock = threading.RLock()


def one_at_a_time(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have the calls of all functions that are wrapped so wait for those of other threads."""

    @functools.wraps(function)
    def alone(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        with _lock:
            return function(*args, **kwargs)

    return alone


def _renew() -> None:
    """Give a child process a lock of its own: the thread that owns the parent's is not there."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_renew)
