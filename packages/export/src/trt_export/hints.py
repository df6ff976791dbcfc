"""The way out in a message, in the words of its reader: Python for callers, options for users of the command."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_on_command_line: ContextVar[bool] = ContextVar("trt_export.on_command_line", default=False)


def hint(python: str, option: str) -> str:
    """Return `option` in a call of the command `trt-export`, else `python`."""
    return option if _on_command_line.get() else python


@contextmanager
def on_command_line() -> Iterator[None]:
    """Have the messages of this thread speak of the command line."""
    token = _on_command_line.set(True)
    try:
        yield
    finally:
        _on_command_line.reset(token)
