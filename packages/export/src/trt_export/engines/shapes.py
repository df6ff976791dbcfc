"""Shapes of an engine as expressions over its own input dimensions (docs/engine-record.md).

Inside torch, sizes are sympy expressions over symbols. An engine knows no symbols, only the sizes of its inputs: so
each symbol is solved for an input dimension, named `i<input>d<dim>`, and every other size is written with those names.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeGuard, TypeVar

import sympy
import torch
from torch.utils._sympy.functions import CeilToInt, FloorDiv, IntTrueDiv, Max, Min, Mod, PythonMod

from trt_export.engines.expressions import names_in
from trt_export.errors import EngineRecordError

_MAX_POWER = 8  # powers are written as products

T = TypeVar("T")


class Inexpressible(Exception):  # noqa: N818  (an answer to the caller, who keeps the node in PyTorch)
    """The size cannot be computed, in integers, from the sizes of the engine's inputs."""


class Algebra(Protocol[T]):
    """Where an expression is built: as text, or as nodes of a graph."""

    def integer(self, value: int) -> T:
        """Return the constant."""

    def dimension(self, symbol: sympy.Symbol) -> T:
        """Return the input dimension."""

    def apply(self, operator: str, left: T, right: T) -> T:
        """Return the result of `+ * // %`, `min` or `max`."""


def build(expression: sympy.Expr, algebra: Algebra[T]) -> T:
    """Build the expression in the algebra.

    Raises:
        Inexpressible: it holds anything but integers, dimensions and the operators of `Algebra.apply`.
    """
    return _Build(algebra).of(expression)


class _Build(Generic[T]):
    def __init__(self, algebra: Algebra[T]) -> None:
        self.algebra = algebra

    def of(self, expression: sympy.Expr) -> T:
        if isinstance(expression, sympy.Integer):
            return self.algebra.integer(int(expression))
        if isinstance(expression, sympy.Symbol):
            return self.algebra.dimension(expression)
        operator = next((name for kinds, name in _OPERATORS if isinstance(expression, kinds)), None)
        if operator is not None:
            return self.fold(operator, expression.args)
        if isinstance(expression, sympy.Pow) and _is_small_power(expression.exp):
            return self.fold("*", [expression.base] * int(expression.exp))
        if isinstance(expression, CeilToInt) and isinstance(expression.args[0], IntTrueDiv):
            numerator, denominator = expression.args[0].args
            return self.of(-FloorDiv(-numerator, denominator))
        raise Inexpressible(f"{expression} is no integer arithmetic over input sizes")

    def fold(self, operator: str, arguments: Iterable[sympy.Expr]) -> T:
        """Apply the operator to neighbours, pair by pair: n operands make log2(n) levels, of which a record has few.

        All of them may be grouped so, except `//` and `%`, which have two.
        """
        parts = [self.of(argument) for argument in arguments]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            applied = [self.algebra.apply(operator, left, right) for left, right in pairs]
            parts = applied + parts[2 * len(applied) :]
        return parts[0]


_OPERATORS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (sympy.Add, "+"),
    (sympy.Mul, "*"),
    (FloorDiv, "//"),
    ((Mod, PythonMod), "%"),
    ((Max, sympy.Max), "max"),
    ((Min, sympy.Min), "min"),
)


def _is_small_power(exponent: sympy.Expr) -> bool:
    return isinstance(exponent, sympy.Integer) and 1 <= int(exponent) <= _MAX_POWER


class _Text:
    """Python syntax, each operation in parentheses."""

    def integer(self, value: int) -> str:
        return str(value) if value >= 0 else f"({value})"

    def dimension(self, symbol: sympy.Symbol) -> str:
        return str(symbol.name)

    def apply(self, operator: str, left: str, right: str) -> str:
        if operator in ("min", "max"):
            return f"{operator}({left}, {right})"
        return f"({left} {operator} {right})"


class InputDimensions:
    """Solves the sizes of a partition for the dimensions of its inputs, given in engine order."""

    def __init__(self, inputs: Sequence[torch.Tensor]) -> None:
        self._solutions: dict[sympy.Expr, sympy.Expr] = {}
        dynamic = [
            (position, dimension, size_of(size))
            for position, tensor in enumerate(inputs)
            for dimension, size in enumerate(tensor.shape)
            if is_dynamic(size)
        ]
        # Plain symbols first: what else depends on them is then an expression, and all others are free.
        plain = [entry for entry in dynamic if isinstance(entry[2], sympy.Symbol)]
        for position, dimension, size in (
            *plain,
            *(entry for entry in dynamic if entry not in plain),
        ):
            if size not in self._solutions and not self._is_solved(size):
                self._solve(size, dimension_symbol(position, dimension))

    def _is_solved(self, size: sympy.Expr) -> bool:
        try:
            self.text(size)
        except Inexpressible:
            return False
        return True

    def _solve(self, size: sympy.Expr, name: sympy.Symbol) -> None:
        """Note that `size` is the dimension `name`; if it is linear in one unknown symbol, solve it for that."""
        self._solutions[size] = name
        if isinstance(size, sympy.Symbol):
            return
        unknown = [symbol for symbol in size.free_symbols if symbol not in self._solutions]
        if len(unknown) != 1 or (not size.is_Add and not size.is_Mul):
            return
        factor = size.coeff(unknown[0], 1)
        rest = sympy.expand(size - factor * unknown[0])
        if isinstance(factor, sympy.Integer) and factor > 0 and not rest.has(unknown[0]):
            difference = name - rest.xreplace(self._solutions)
            self._solutions[unknown[0]] = (
                difference if factor == 1 else FloorDiv(difference, factor)
            )

    def solve(self, size: sympy.Expr) -> sympy.Expr:
        """Return the size over input dimensions only.

        Raises:
            Inexpressible: it depends on a symbol that no input dimension tells.
        """
        if size in self._solutions:
            return self._solutions[size]
        missing = sorted(
            str(symbol) for symbol in size.free_symbols if symbol not in self._solutions
        )
        if missing:
            raise Inexpressible(
                f"no input's shape tells {', '.join(missing)}, and its size is {size}"
            )
        return size.xreplace(self._solutions)

    def text(self, size: sympy.Expr) -> int | str:
        """Return the size for the record: an integer, or an expression as text.

        Raises:
            Inexpressible: as `solve`, or it is no integer arithmetic, or too long for the record.
        """
        solved = self.solve(size)
        if isinstance(solved, sympy.Integer):
            return int(solved)
        text = build(solved, _Text())
        try:
            names_in(text)
        except EngineRecordError as error:
            # Ours is trt-runtime's reader too (docs/contract/expressions.json): what it refuses is not written.
            shown = str(solved)
            raise Inexpressible(
                f"the size {shown if len(shown) <= 200 else f'{shown[:197]}...'} is too long an expression for the"
                " engine's record"
            ) from error
        return text

    def shape(self, tensor: torch.Tensor) -> tuple[int | str, ...]:
        """Return the tensor's shape for the record; raises as `text`."""
        return tuple(self.text(size_of(size)) for size in tensor.shape)


def step_of(size: sympy.Expr) -> tuple[int, int]:
    """Return `(multiple, offset)` of a size: whatever its symbols are, it is an integer times `multiple` plus `offset`.

    `32*s` gives (32, 0), `2*s - 1` gives (2, 1), `s*t` gives (1, 0).
    """
    constant, terms = sympy.expand(size).as_coeff_Add()
    if not isinstance(constant, sympy.Integer) or terms == 0:
        return 1, 0
    multiple = 0
    for term in sympy.Add.make_args(terms):
        factor, rest = term.as_coeff_Mul()
        if not (isinstance(factor, sympy.Integer) and rest.is_integer):
            return 1, 0
        multiple = math.gcd(multiple, int(factor))
    return (multiple, int(constant) % multiple) if multiple > 1 else (1, 0)


def dimension_symbol(position: int, dimension: int) -> sympy.Symbol:
    """Return the symbol of a dimension of an engine's input: a size, so an integer and not negative."""
    return sympy.Symbol(f"i{position}d{dimension}", integer=True, nonnegative=True)


def parse_dimension(symbol: sympy.Symbol) -> tuple[int, int]:
    """Return the input and the dimension that `dimension_symbol` made the symbol of."""
    match = re.fullmatch(r"i(\d+)d(\d+)", symbol.name)
    assert match is not None
    return int(match[1]), int(match[2])


def is_dynamic(size: object) -> TypeGuard[torch.SymInt]:
    """Whether a size is not the same in every call."""
    return isinstance(size, torch.SymInt) and not size.node.expr.is_number


def size_of(size: torch.SymInt | int) -> sympy.Expr:
    """Return torch's expression of a size."""
    expression: sympy.Expr = (
        size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
    )
    return expression
