"""Ctrl-C in the process of the command `trt-export`: one line and exit code 130, at any moment.

A KeyboardInterrupt raised in the middle of an import comes out of it as another error, or is printed and dropped, or
aborts the process, depending on the library. So the package imports this module before all others, and as long as a
module is being imported the signal ends the process at once. Only the process of the command is changed: where the
package is imported by anything else, nothing is done.
"""

import os
import signal
import sys
from types import FrameType

_NAME, _MODULE = "trt-export", "trt_export"
MESSAGE = f"{_NAME}: interrupted; no file was left half-written"
EXIT_CODE = 130

_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"
# Modules with temporary files to remove: an import on their behalf is interrupted by an exception, like other work.
_CLEANING = (f"{_MODULE}.files.atomic", f"{_MODULE}.builders.tensorrt")

_installed = False
_running = False  # the command has begun, so a KeyboardInterrupt is caught
_seen = False


def install() -> None:
    """Handle SIGINT from now on, if this is the process of the command and nobody else handles or ignores it."""
    global _installed
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
        _installed = True


def begin() -> None:
    """Note that the command runs: outside of imports, the signal raises KeyboardInterrupt."""
    global _running, _seen
    _running, _seen = True, False


def seen() -> bool:
    """Return whether the signal came since `begin`: libraries make other errors of KeyboardInterrupt."""
    return _seen


def end(code: int) -> None:
    """Note that the command is done: a signal while Python shuts down ends the process with this exit code."""
    global _running
    _running = False
    if _installed:
        signal.signal(signal.SIGINT, lambda number, frame: os._exit(code))


def _is_command() -> bool:
    if sys.argv[:1] == ["-m"]:  # runpy imports the package before it knows the path of __main__
        return sys.orig_argv[-len(sys.argv)].removeprefix("-m") == _MODULE
    return os.path.basename(sys.argv[0]) == _NAME if sys.argv else False


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _seen
    if not _running or _seen or _is_importing(frame):
        try:  # noqa: SIM105 - contextlib would be one more import before the signal is handled
            os.write(2, f"{MESSAGE}\n".encode())
        except OSError:
            pass  # stderr is closed or full
        os._exit(EXIT_CODE)
    _seen = True
    raise KeyboardInterrupt


def _is_importing(frame: FrameType | None) -> bool:
    importing = False
    while frame is not None:
        importing = importing or frame.f_code.co_filename == _IMPORT_SYSTEM
        if frame.f_globals.get("__name__") in _CLEANING:
            return False
        frame = frame.f_back
    return importing


install()
