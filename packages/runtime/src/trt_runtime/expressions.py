"""Shape expressions: integer arithmetic over input dimensions, read from text that nobody vouches for.

The text comes out of a file, so nothing is evaluated that is not on the list below, and the size of
what is, is bounded. Grammar and limits: docs/engine-record.md, "Shape expressions"; cases that
trt-export's reader shares: docs/contract/expressions.json.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import Union

import torch

from .errors import InputError, RecordError

MAX_LENGTH = 1000
MAX_DEPTH = 50

Dim = Union[int, torch.SymInt]  # noqa: UP007 - evaluated at import, and torch.SymInt has no `|`
Dims = Mapping[str, Dim]
Evaluate = Callable[[Dims], Dim]

# One token: a number, a name, a function or an operator. `**` and everything else that Python's
# grammar would let through ends here.
_TOKENS = re.compile(r"(?:\s*(?:\d+|i\d+d\d+|min|max|//|\*(?!\*)|[-+%(),]))+\s*", re.ASCII)
_NAME = re.compile(r"i(\d+)d(\d+)", re.ASCII)


class Expression:
    """A shape expression, compiled once.

    Calling it with the input dimensions by name gives an int for ints and a SymInt for SymInts.
    """

    __slots__ = ("_evaluate", "names", "text")

    def __init__(self, text: str) -> None:
        """Compile ``text``; raises RecordError if it is no shape expression."""
        self.text = text
        names: set[str] = set()
        self._evaluate = _compile(_parse(text), names, text, 1)
        self.names = frozenset(names)
        """The input dimensions that it reads."""

    def __call__(self, dims: Dims) -> Dim:
        """Evaluate; raises InputError for a division by zero."""
        try:
            return self._evaluate(dims)
        except ZeroDivisionError:
            used = ", ".join(f"{name}={dims[name]}" for name in sorted(self.names))
            raise InputError(
                f"shape expression '{self.text}': expected no division by zero, found one with "
                f"{used or 'no dimensions'}; the engine cannot run with these input shapes"
            ) from None


@lru_cache(maxsize=4096)
def compile_expression(text: str) -> Expression:
    """Return the expression for ``text``, compiled at its first use; raises RecordError."""
    return Expression(text)


def dim_name(input_index: int, dim_index: int) -> str:
    """Return the name of a dimension of an input."""
    return f"i{input_index}d{dim_index}"


def _refuse(text: str, found: str) -> RecordError:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return RecordError(
        f"shape expression {shown!r}: expected integers, names like i0d1, + - * // %, min() and max() "
        f"of two or more, and parentheses, at most {MAX_LENGTH} characters and {MAX_DEPTH} levels, "
        f"found {found}; build the engine again"
    )


def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise _refuse(text, f"{len(text)} characters")
    if not _TOKENS.fullmatch(text):
        raise _refuse(text, "something else")
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        # Python's parser reports deep nesting as any of these, depending on its version.
        raise _refuse(text, f"{type(error).__name__}: {error}") from None


# torch's functions on SymInts have no annotations of their own.
_check: Callable[..., None] = torch._check
_sym_min: Callable[[Dim, Dim], Dim] = torch.sym_min
_sym_max: Callable[[Dim, Dim], Dim] = torch.sym_max

_OPERATORS: Mapping[type[ast.operator], Callable[[Dim, Dim], Dim]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // _divisor(b),
    ast.Mod: lambda a, b: a % _divisor(b),  # type: ignore[operator]  # int % SymInt works
}


def _divisor(value: Dim) -> Dim:
    if isinstance(value, torch.SymInt):
        _check(value != 0, lambda: "shape expression: division by zero")
    return value


_FUNCTIONS: Mapping[str, Callable[[Dim, Dim], Dim]] = {
    "min": _sym_min,
    "max": _sym_max,
}


def _compile(node: ast.expr, names: set[str], text: str, depth: int) -> Evaluate:
    """Turn ``node`` into a closure; adds the names that it reads to ``names``."""
    if depth > MAX_DEPTH:
        raise _refuse(text, f"more than {MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return lambda dims: value
        case ast.Name(id=name) if _NAME.fullmatch(name):
            names.add(name)
            return lambda dims: dims[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            inner = _compile(operand, names, text, depth + 1)
            return lambda dims: -inner(dims)
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            apply = _OPERATORS[type(operator)]
            a = _compile(left, names, text, depth + 1)
            b = _compile(right, names, text, depth + 1)
            return lambda dims: apply(a(dims), b(dims))
        case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if (
            function in _FUNCTIONS and len(args) >= 2
        ):
            pick = _FUNCTIONS[function]
            parts = [_compile(arg, names, text, depth + 1) for arg in args]
            return lambda dims: reduce(pick, (part(dims) for part in parts))
    # Not ast.unparse: it is recursive, and an operand may be nested deeper than it can go.
    raise _refuse(text, f"{ast.get_source_segment(text.strip(), node)!r:.42}")
