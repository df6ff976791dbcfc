"""Evaluation of the shape expressions in a record, without `eval`.

Grammar and limits: `docs/engine-record.md`. Values may be `int` or `torch.SymInt`, so the same text gives the
shapes of real and of fake tensors.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from trt_export.errors import EngineRecordError

_MAX_CHARACTERS = 1000
_MAX_LEVELS = 50
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(dim: int | str, sizes: Mapping[str, Any]) -> Any:
    """The value of a dimension.

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


@lru_cache(maxsize=4096)
def _parse(text: str) -> ast.expr:
    if len(text) > _MAX_CHARACTERS:
        raise EngineRecordError(
            f"a shape expression has at most {_MAX_CHARACTERS} characters, this one has {len(text)}"
        )
    try:
        body = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EngineRecordError(f"{text!r:.200} is not a shape expression: {error}") from error
    _check(body, text, 0)
    return body


def _check(node: ast.expr, text: str, level: int) -> None:
    if level > _MAX_LEVELS:
        raise EngineRecordError(
            f"the shape expression {text!r:.200} has more than {_MAX_LEVELS} levels"
        )
    children: list[ast.expr]
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            children = []
        case ast.Name():
            children = []
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            children = [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            children = [left, right]
        case ast.Call(func=ast.Name(id="min" | "max"), args=[_, *_] as args, keywords=[]):
            children = args
        case _:
            raise EngineRecordError(
                f"the shape expression {text!r:.200} holds {ast.unparse(node)!r:.80}; allowed are integers,"
                " names, + - * // %, min and max"
            )
    for child in children:
        _check(child, text, level + 1)


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
