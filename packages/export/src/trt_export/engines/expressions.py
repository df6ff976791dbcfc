"""Shape expressions in a record: checked and evaluated without `eval`.

Grammar and limits: `docs/engine-record.md`; cases that trt-runtime's reader shares: `docs/contract/expressions.json`.
Values may be `int` or `torch.SymInt`, so the same text gives the shapes of real and of fake tensors.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeGuard

from trt_export.errors import EngineRecordError

MAX_LENGTH = 1000
MAX_LEVELS = 50
# One token: a number, a name, a function or an operator. Python's grammar has more (`1_000`, `0x10`, comments, names
# in other scripts that it takes for ASCII), and what only one of two readers accepts is no contract.
_TOKENS = re.compile(r"(?:\s*(?:\d+|i\d+d\d+|min|max|//|\*(?!\*)|[-+%(),]))+\s*", re.ASCII)
_NAME = re.compile(r"i(\d+)d(\d+)", re.ASCII)
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(dim: int | str, sizes: Mapping[str, Any]) -> Any:
    """Return the value of a dimension.

    Args:
        dim: a size, or an expression over the names in `sizes`.
        sizes: the free input dimensions by name (`i<input>d<dim>`), each an int or a `torch.SymInt`.

    Raises:
        EngineRecordError: the text is no such expression, names something else, or divides by zero.
    """
    if isinstance(dim, int):
        return dim
    try:
        return _value(_parse(dim), sizes)
    except ZeroDivisionError as error:
        raise EngineRecordError(f"the shape expression {dim!r:.200} divides by zero") from error
    except KeyError as error:
        raise EngineRecordError(
            f"the shape expression {dim!r:.200} names {error}; known are {sorted(sizes)}"
        ) from error


def names_in(text: str) -> frozenset[str]:
    """Return the input dimensions that an expression reads.

    Raises:
        EngineRecordError: the text is no shape expression.
    """
    return frozenset(node.id for node in ast.walk(_parse(text)) if _is_dimension(node))


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > MAX_LENGTH:
        raise _refuse(text, f"{len(text)} characters")
    if not _TOKENS.fullmatch(text):
        raise _refuse(text, "something else")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # Python's parser reports deep nesting as any of these, depending on its version.
        raise _refuse(text, f"{type(error).__name__}: {error}") from error
    _check(body, text)
    return body


def _check(expression: ast.expr, text: str) -> None:
    """Check every node, without recursion: the depth of what was parsed is one of the things checked."""
    level = [expression]
    for _ in range(MAX_LEVELS):
        level = [child for node in level for child in _operands(node, text)]
        if not level:
            return
    raise _refuse(text, f"more than {MAX_LEVELS} levels")


def _operands(node: ast.expr, text: str) -> Iterator[ast.expr]:
    match node:
        case ast.Constant(value=int()):  # No text of the tokens above makes a bool.
            pass
        case ast.Name() if _is_dimension(node):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            yield from (left, right)
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, _, *_] as args, keywords=[]):
            yield from args
        case _:
            raise _refuse(text, f"{ast.get_source_segment(text.strip(), node)!r:.60}")


def _is_dimension(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and _NAME.fullmatch(node.id) is not None


def _refuse(text: str, found: str) -> EngineRecordError:
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return EngineRecordError(
        f"shape expression {shown!r}: expected integers, names like i0d1, + - * // %, min() and max() of two or more,"
        f" and parentheses, at most {MAX_LENGTH} characters and {MAX_LEVELS} levels, found {found}; build the"
        " engine again"
    )


def _value(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.UnaryOp(operand=operand):
            return -_value(operand, sizes)
        case ast.BinOp(left=left, op=op, right=right):
            return _BINARY[type(op)](_value(left, sizes), _value(right, sizes))
        case ast.Call(func=ast.Name(id=name), args=args):
            return _extreme(name, [_value(argument, sizes) for argument in args])
    raise AssertionError("checked by _check")


def _extreme(name: str, values: list[Any]) -> Any:
    import torch  # Only a symbolic size needs it, and whoever has one has imported it.

    pick: Callable[[Any, Any], Any] = torch.sym_min if name == "min" else torch.sym_max
    result = values[0]
    for value in values[1:]:
        result = pick(result, value)
    return result
