"""The bounds of dynamic dimensions: from the program's own range constraints, narrowed by what the user says."""

import logging
import operator
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.symbol import SymT, symbol_is_type
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

from trt_export.engines.shapes import is_dynamic, size_of, step_of
from trt_export.errors import DynamicShapeError, UnboundedDimensionError
from trt_export.hints import hint

_log = logging.getLogger("trt_export")

# torch.export writes 2 where it assumed that a size is neither 0 nor 1, and does not hold callers to it.
_ASSUMED_MINIMUM = 2

# torch writes its largest integers, too, where it knows no maximum.
_NO_MAXIMUM = 2**62


@dataclass(frozen=True)
class Bounds:
    """The sizes that a dimension may have, and the one that the engine is tuned for."""

    min: int
    opt: int
    max: int


@dataclass(frozen=True)
class InputDimension:
    """A dynamic dimension of a user input: `name` is `"<input>.<dimension>"`, `dim` that of its torch.export.Dim."""

    name: str
    dim: str | None
    size: sympy.Expr


class DynamicBounds:
    """The bounds of every symbol of a program.

    `dynamic` maps a dimension to `(min, opt, max)`. A dimension is called by its input and number (`"tokens.1"`), by
    the name of its `torch.export.Dim` (which a saved program has lost) or by its symbol (`"s31"`).

    Raises:
        DynamicShapeError: a name that the program does not have, bounds out of order, or outside the program's range.
        UnboundedDimensionError: an input dimension without a maximum.
    """

    def __init__(
        self, program: ExportedProgram, dynamic: Mapping[str, Sequence[int]] | None
    ) -> None:
        self._dimensions = list(_input_dimensions(program))
        hints = _hints(program)
        if dynamic is not None and not isinstance(dynamic, Mapping):
            raise DynamicShapeError(
                "dynamic: expected a mapping of dimensions to (min, opt, max), such as {'tokens.1': (1, 16, 64)},"
                f" found {type(dynamic).__name__} {dynamic!r:.80}"
            )
        stated: dict[sympy.Symbol, tuple[str, Sequence[int]]] = {}
        for name, sizes in (dynamic or {}).items():
            symbol = self._symbol(name, program)
            if symbol in stated:
                raise DynamicShapeError(
                    f"{name!r} and {stated[symbol][0]!r} are the same dimension ({symbol}): bound it once"
                )
            stated[symbol] = (name, sizes)
        self.stated = frozenset(stated)
        """The symbols that the user bounded."""
        self._bounds: dict[sympy.Symbol, Bounds] = {}
        self._ranges: dict[sympy.Symbol, ValueRanges[Any]] = {}
        declared = _declared_minimums(program)
        for symbol, allowed in program.range_constraints.items():
            if not isinstance(symbol, sympy.Symbol):
                continue  # a saved program also lists derived dimensions; they follow from their symbols
            if symbol in stated:
                name, sizes = stated[symbol]
                bounds = self._bounds[symbol] = _checked(name, sizes, allowed)
                self._ranges[symbol] = ValueRanges(bounds.min, bounds.max)
            elif (upper := _finite(allowed.upper)) is not None:
                lower = _finite(allowed.lower)
                if lower == _ASSUMED_MINIMUM and not symbol_is_type(symbol, SymT.UNBACKED_INT):
                    lower = declared.get(symbol, 1)
                # An integer of the program, unlike a size, may be negative.
                self._ranges[symbol] = ValueRanges(-int_oo if lower is None else lower, upper)
                usual = min(max(hints.get(symbol, upper), lower or 0), upper)
                self._bounds[symbol] = Bounds(max(0, lower or 0), usual, upper)
        for dimension in self._dimensions:
            missing = [
                symbol for symbol in dimension.size.free_symbols if symbol not in self._bounds
            ]
            if missing:
                raise UnboundedDimensionError(_how_to_bound(dimension, missing[0]))

    def _symbol(self, name: str, program: ExportedProgram) -> sympy.Symbol:
        matches = {d.size for d in self._dimensions if name in (d.name, d.dim)}
        matches |= {symbol for symbol in program.range_constraints if str(symbol) == name}
        if len(matches) == 1:
            (size,) = matches
            if isinstance(size, sympy.Symbol):
                return size
            symbols = ", ".join(map(str, size.free_symbols))
            raise DynamicShapeError(
                f"dimension {name!r} is {size}, which follows from {symbols}: bound that instead"
            )
        known = ", ".join(f"{d.name} ({d.dim or d.size})" for d in self._dimensions) or "none"
        raise DynamicShapeError(
            f"there is no dynamic dimension {name!r}; dynamic dimensions: {known}"
        )

    @property
    def of_symbols(self) -> Mapping[sympy.Symbol, Bounds]:
        """The bounds of every symbol that has a maximum."""
        return self._bounds

    def of(self, size: torch.SymInt | int) -> Bounds | None:
        """Return the bounds of a size; None if it has no maximum (a size known only when it runs)."""
        expression = size_of(size)
        if any(symbol not in self._bounds for symbol in expression.free_symbols):
            return None
        try:
            whole = bound_sympy(expression, self._ranges)
        except (
            Exception
        ) as error:  # torch's analysis raises whatever an operator that it lacks leads to
            _log.info("no bounds of %s: %s: %s", expression, type(error).__name__, error)
            return None
        upper = _finite(whole.upper)
        if upper is None or upper < 0:
            return None
        multiple, offset = step_of(expression)
        lower = max(0, _finite(whole.lower) or 0)
        lower += (offset - lower) % multiple
        opts = {symbol: sympy.Integer(bounds.opt) for symbol, bounds in self._bounds.items()}
        usual = _finite(expression.xreplace(opts))
        return Bounds(lower, min(max(upper if usual is None else usual, lower), upper), upper)

    def constraints(self, program: ExportedProgram) -> dict[sympy.Symbol, ValueRanges[Any]]:
        """Return the program's range constraints, narrowed where the user said so."""
        constraints = {
            key: value
            for key, value in program.range_constraints.items()
            if isinstance(key, sympy.Symbol)
        }
        return constraints | {
            symbol: ValueRanges(self._bounds[symbol].min, self._bounds[symbol].max)
            for symbol in self.stated
        }


def _checked(name: str, sizes: Sequence[int], allowed: ValueRanges[Any]) -> Bounds:
    integers = _integers(sizes)
    if integers is None or len(integers) != 3:
        raise DynamicShapeError(
            f"bounds of {name!r}: expected (min, opt, max), three integers, found {sizes!r:.80}"
        )
    bounds = Bounds(*integers)
    if bounds.opt < 1 or not 0 <= bounds.min <= bounds.opt <= bounds.max:
        raise DynamicShapeError(
            f"bounds of {name!r}: expected 0 <= min <= opt <= max and opt >= 1, found {integers}"
        )
    lower = 0 if allowed.lower <= _ASSUMED_MINIMUM else allowed.lower
    if bounds.min < lower or bounds.max > allowed.upper:
        raise DynamicShapeError(
            f"bounds of {name!r}: {bounds.min} to {bounds.max} is outside what the program was exported for "
            f"({lower} to {allowed.upper}); export it with torch.export.Dim(..., min={bounds.min}, max={bounds.max})"
        )
    return bounds


def _integers(sizes: Any) -> tuple[int, ...] | None:
    """Return integers of any kind (numpy's too) as Python's; None for what is not a sequence of them."""
    if isinstance(sizes, str | bytes | Mapping | Set) or not isinstance(sizes, Iterable):
        return None
    found = tuple(sizes)
    if any(isinstance(size, bool) or not hasattr(size, "__index__") for size in found):
        return None
    try:
        return tuple(map(operator.index, found))
    except TypeError:  # a tensor of floats
        return None


def _declared_minimums(program: ExportedProgram) -> dict[sympy.Symbol, int]:
    """Return the minimums of symbols that torch notes as those of dimensions derived from them, and does not round up.

    Of `32*s` with s from 1 to 4, it has `32*s: 32 to 128`, and `s: 2 to 4`.
    """
    minimums: dict[sympy.Symbol, int] = {}
    for size, allowed in program.range_constraints.items():
        lower = _finite(allowed.lower)
        if isinstance(size, sympy.Symbol) or len(size.free_symbols) != 1 or lower is None:
            continue
        (symbol,) = size.free_symbols
        factor, rest = size.coeff(symbol, 1), size.coeff(symbol, 0)
        if isinstance(factor, sympy.Integer) and factor > 0 and size == factor * symbol + rest:
            least = -((int(rest) - lower) // int(factor))  # rounded up
            minimums[symbol] = max(minimums.get(symbol, 0), least)
    return minimums


def _finite(value: object) -> int | None:
    """Return an end of one of torch's ranges; None if there is none, or it is no integer (a float, a bool)."""
    if isinstance(value, (int, sympy.Integer)) and abs(int(value)) < _NO_MAXIMUM:
        return int(value)
    return None


def _how_to_bound(dimension: InputDimension, symbol: sympy.Symbol) -> str:
    name, number = dimension.name.rsplit(".", 1)
    dim = dimension.dim or "dim"
    key = dimension.name if dimension.size == symbol else str(symbol)
    return (
        f"dimension {number} of input {name!r} ({dimension.size}) has no maximum, and an engine needs one: export with "
        f"torch.export.Dim({dim!r}, max=...), or bound it here: {how_to_bound(key)}"
    )


def how_to_bound(name: str) -> str:
    """Return how a caller bounds the dimension or symbol of this name."""
    return hint(f'dynamic={{"{name}": (min, opt, max)}}', f"--dynamic {name}=MIN:OPT:MAX")


def _input_dimensions(program: ExportedProgram) -> Iterator[InputDimension]:
    """Go through the dynamic dimensions of the user inputs, in order."""
    inputs = set(program.graph_signature.user_inputs)
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name not in inputs or not isinstance(value, torch.Tensor):
            continue
        for number, size in enumerate(value.shape):
            if is_dynamic(size):
                names = size.node.shape_env.source_name_to_debug_name
                dims = [
                    dim
                    for source, dim in names.items()
                    if re.fullmatch(rf"L\['{re.escape(node.name)}'\]\.size\(\)\[{number}\]", source)
                ]
                yield InputDimension(
                    f"{node.name}.{number}", dims[0] if dims else None, size_of(size)
                )


def _hints(program: ExportedProgram) -> dict[sympy.Symbol, int]:
    """Return the sizes that the program was exported with: what an engine is tuned for unless the user says more."""
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for size in value.shape if isinstance(value, torch.Tensor) else ():
            if is_dynamic(size):
                return {
                    symbol: int(hint)
                    for symbol, hint in size.node.shape_env.backed_var_to_val.items()
                }
    return {}
