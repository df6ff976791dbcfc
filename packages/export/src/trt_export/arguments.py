"""Checks the types of arguments where a caller passes them, before they fail deep in the work."""

import os
from pathlib import Path
from typing import Any

from trt_export.errors import ArgumentError


def check_argument(name: str, value: object, is_right: bool, expected: str) -> None:
    """Refuse an argument.

    Args:
        name: of the argument.
        value: what was passed.
        is_right: the outcome of the check.
        expected: what the argument may be, for the message.

    Raises:
        ArgumentError: it is not right.
    """
    if not is_right:
        raise ArgumentError(f"{name}: expected {expected}, found {_shown(value)}")


def check_callback(name: str, value: object) -> None:
    """Check a function that may be left out.

    Raises:
        ArgumentError: it cannot be called.
    """
    check_argument(name, value, value is None or callable(value), "a function or None")


def path_argument(name: str, value: Any) -> Path:
    """Return the path that a caller passed.

    Raises:
        ArgumentError: it is no path, or none that a file can have.
    """
    is_path = isinstance(value, str | os.PathLike) and isinstance(os.fspath(value), str)
    check_argument(name, value, is_path, "a path (str or pathlib.Path)")
    check_argument(name, value, "\0" not in os.fspath(value), "a path without null bytes")
    return Path(value)


def _shown(value: object) -> str:
    """Name the type; the value too if it is small, since a program's text has no end."""
    kind = type(value).__name__
    if value is None:
        return "None"
    is_small = isinstance(value, str | bytes | bool | float | complex | os.PathLike)
    return (
        f"{kind} {value!r:.80}"
        if is_small or (isinstance(value, int) and abs(value) < 2**64)
        else kind
    )
