"""Wraps what torch, torch.onnx, ONNX and ExecuTorch raise into errors of this package.

Interrupts, exits and lack of memory pass as they are, and so do errors of functions that the caller gave.
"""

import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from trt_export.errors import TrtExportError

if TYPE_CHECKING:
    from torch.fx import Node

_P = ParamSpec("_P")
_R = TypeVar("_R")

_MARK = "_trt_export_of_caller"
_LENGTH = 2000
_LINE_LENGTH = 300


def of_caller(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Have the errors of a caller's function pass through `wrapped_errors` as they are."""

    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            with suppress(AttributeError):  # a class with slots
                setattr(error, _MARK, True)
            raise

    return call


@contextmanager
def wrapped_errors(
    kind: type[TrtExportError],
    phase: str | Callable[[], str],
    advice: str | Callable[[Exception], str],
    *,
    advice_first: bool = False,
) -> Iterator[None]:
    """Raise `kind` in the place of an error that is not ours; the original is its `__cause__`.

    Args:
        kind: the error to raise.
        phase: what failed, for the start of the message; a function is asked when it has failed.
        advice: what helps, for the end of the message; a function gets the error.
        advice_first: begin with the advice, and have but the first line of the error behind it: for a library whose
            errors are long and give advice of their own.
    """
    try:
        yield
    except (TrtExportError, MemoryError):
        raise
    except Exception as error:
        if getattr(error, _MARK, False):
            raise
        where = phase if isinstance(phase, str) else phase()
        help_ = advice if isinstance(advice, str) else advice(error)
        if advice_first:
            raise kind(f"{where}: {help_}; found {_short_text(error)}{_place(error)}") from error
        raise kind(
            f"{where}: expected it to finish, found {error_text(error)}{_place(error)}; {help_}"
        ) from error


def error_text(error: BaseException) -> str:
    """Return the error's class and text on one line; the line that raised it for an error without a text."""
    name, text = type(error).__name__, " ".join(str(error).split())
    if text:
        return f"{name}: {text if len(text) <= _LENGTH else f'{text[:_LENGTH]}...'}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return name
    return f"{name} in {frames[-1].name} of {Path(frames[-1].filename).name}: {frames[-1].line}"


def _short_text(error: Exception) -> str:
    """Return the error's class and the first line of its text."""
    if not str(error).strip():
        return error_text(error)
    line = " ".join(first_line(error).split())
    return line if len(line) <= _LINE_LENGTH else f"{line[:_LINE_LENGTH]}..."


def first_line(error: Exception) -> str:
    """Return the error's class and the first line of its text, if it has one."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _place(error: BaseException) -> str:
    """Name the node that a library worked on, with the line of the model that it comes from."""
    node = _node_of(error)
    if node is None:
        return ""
    lines = [line.strip() for line in str(node.meta.get("stack_trace") or "").splitlines()]
    frames = [line for line in lines if line.startswith("File ")]  # the innermost is the last
    return f" (node {node.name!r}, {node.target}{f', {frames[-1]}' if frames else ''})"


def _node_of(error: BaseException) -> "Node | None":
    """Return the innermost node among the variables of the error's frames: libraries call theirs `node` or `n`."""
    fx = sys.modules.get("torch.fx")
    found = None
    for frame, _ in traceback.walk_tb(error.__traceback__):
        for name in ("node", "n"):
            value = frame.f_locals.get(name)
            if fx is not None and isinstance(value, fx.Node):
                found = value
    return found
