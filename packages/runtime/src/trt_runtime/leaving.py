"""The end of the process while a daemon thread is in a library's native code.

Python before 3.14 ends a thread that comes back from there once the interpreter goes down by unwinding its stack, and a
library that gave the GIL away in a C++ object aborts the process then (pybind11's does, in ONNX Runtime and torch). So
the process ends when the calls under way have, and no other begins.
"""

from __future__ import annotations

import atexit
import os
import threading
import time

_calls: set[object] = set()
_leaving = False
_main = threading.main_thread().ident


def begin(call: object) -> None:
    """Note that this thread goes into native code; for ever, if the process is about to end."""
    if (
        threading.get_ident() == _main
    ):  # which is who leaves; and signals end calls of no other thread
        return
    _calls.add(call)
    if _leaving:
        _calls.discard(call)
        threading.Event().wait()


def end(call: object) -> None:
    """Note that it is back."""
    _calls.discard(call)


def _leave() -> None:
    global _leaving
    _leaving = True
    while _calls:
        time.sleep(0.002)


def _forget() -> None:
    """A child has none of its parent's threads but the one that forked."""
    global _main
    _main = threading.get_ident()
    _calls.clear()


atexit.register(_leave)
os.register_at_fork(after_in_child=_forget)
