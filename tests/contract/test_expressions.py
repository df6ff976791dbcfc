"""Shape expressions: trt-runtime and trt-export read the same texts, and trt-export writes none that is refused."""

from __future__ import annotations

from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._sympy.functions import CeilToInt, FloorDiv, IntTrueDiv, Max, Min, PythonMod

from trt_export.engines import expressions as export_expressions
from trt_export.engines.shapes import Inexpressible, InputDimensions
from trt_export.errors import EngineRecordError
from trt_runtime import InputError, RecordError
from trt_runtime import expressions as runtime_expressions

from .cases import load, text_of

CONTRACT = load("expressions")
CASES = CONTRACT["cases"]


def shown(case: dict[str, Any]) -> str:
    return f"{text_of(case['text'])[:24]!a}"


def runtime_value(text: str, sizes: dict[str, int]) -> Any:
    """What trt-runtime says: a value, or where it refuses; a record with other names is refused when it is read."""
    try:
        expression = runtime_expressions.Expression(text)
    except RecordError:
        return "reading"
    if not expression.names <= set(sizes):
        return "evaluation"
    try:
        return expression(sizes)
    except InputError:
        return "evaluation"


def export_value(text: str, sizes: dict[str, int]) -> Any:
    """What trt-export says, likewise."""
    try:
        export_expressions.names_in(text)
    except EngineRecordError:
        return "reading"
    try:
        return export_expressions.evaluate(text, sizes)
    except EngineRecordError:
        return "evaluation"


@pytest.mark.parametrize("value_of", [runtime_value, export_value])
@pytest.mark.parametrize("case", CASES, ids=shown)
def test_both_halves_give_what_the_contract_says(case: dict[str, Any], value_of: Any) -> None:
    expected = case["at"] if case["value"] == "refused" else case["value"]
    assert value_of(text_of(case["text"]), case["sizes"]) == expected


def test_every_refusal_says_why() -> None:
    refused = [case for case in CASES if case["value"] == "refused"]
    assert len(refused) > 50
    assert all(case["at"] in ("reading", "evaluation") and case["why"] for case in refused)


def test_the_limits_of_both_halves_are_those_of_the_contract() -> None:
    limits = (CONTRACT["limits"]["characters"], CONTRACT["limits"]["levels"])
    assert limits == (runtime_expressions.MAX_LENGTH, runtime_expressions.MAX_DEPTH)
    assert limits == (export_expressions.MAX_LENGTH, export_expressions.MAX_LEVELS)


@given(st.text(alphabet="i0d1 +-*/%(),minax\n", max_size=40))
def test_any_text_means_the_same_to_both_halves(text: str) -> None:
    sizes = {"i0d0": 7, "i0d1": 3, "i1d0": 0, "i1d1": -2}
    assert runtime_value(text, sizes) == export_value(text, sizes)


@given(st.text(max_size=40))
def test_any_unicode_means_the_same_to_both_halves(text: str) -> None:
    assert runtime_value(text, {}) == export_value(text, {})


# What torch's sizes are made of, over many dimensions: sums and products are far wider than 50.
SYMBOLS = [
    sympy.Symbol(f"i{i}d{d}", integer=True, nonnegative=True) for i in range(60) for d in range(2)
]


def _combine(parts: st.SearchStrategy[sympy.Expr]) -> st.SearchStrategy[sympy.Expr]:
    many = st.lists(parts, min_size=2, max_size=70)
    return st.one_of(
        many.map(lambda items: sympy.Add(*items)),
        st.lists(parts, min_size=2, max_size=8).map(lambda items: sympy.Mul(*items)),
        many.map(lambda items: Max(*items)),
        many.map(lambda items: Min(*items)),
        st.tuples(parts, st.integers(1, 9)).map(lambda pair: FloorDiv(*pair)),
        st.tuples(parts, st.integers(1, 9)).map(lambda pair: PythonMod(*pair)),
        st.tuples(parts, st.integers(2, 9)).map(lambda pair: pair[0] ** pair[1]),
        st.tuples(parts, st.integers(1, 9)).map(lambda pair: CeilToInt(IntTrueDiv(*pair))),
    )


SIZES = st.recursive(
    st.one_of(st.sampled_from(SYMBOLS), st.integers(-9, 1000).map(sympy.Integer)),
    _combine,
    max_leaves=90,
)


@given(SIZES, st.lists(st.integers(0, 50), min_size=len(SYMBOLS), max_size=len(SYMBOLS)))
def test_what_the_exporter_writes_is_read_by_both_with_the_value_that_it_meant(
    size: sympy.Expr, values: list[int]
) -> None:
    dimensions = InputDimensions([])
    dimensions._solutions = {symbol: symbol for symbol in SYMBOLS}
    try:
        written = dimensions.text(size)
    except Inexpressible:
        return  # The node stays in PyTorch.
    sizes = {symbol.name: value for symbol, value in zip(SYMBOLS, values, strict=True)}
    # torch's own value of CeilToInt goes through a float, which is not exact for large sizes.
    exact = size.replace(
        CeilToInt, lambda quotient: sympy.ceiling(sympy.Mul(quotient.args[0], 1 / quotient.args[1]))
    )
    expected = exact.subs({symbol: sizes[symbol.name] for symbol in size.free_symbols})
    if isinstance(written, int):
        assert written == expected
        return
    assert runtime_value(written, sizes) == export_value(written, sizes) == int(expected)


@pytest.mark.parametrize("terms", [2, 50, 51, 64, 90])
@pytest.mark.parametrize("operation", [sympy.Add, Max, Min], ids=["sum", "max", "min"])
def test_wide_operations_are_written_in_few_levels(operation: Any, terms: int) -> None:
    size = operation(*SYMBOLS[:terms])
    dimensions = InputDimensions([])
    dimensions._solutions = {symbol: symbol for symbol in SYMBOLS}
    if operation is not sympy.Add and terms > 64:
        with pytest.raises(Inexpressible, match="too long"):  # more than 1,000 characters
            dimensions.text(size)
        return
    sizes = {symbol.name: index for index, symbol in enumerate(SYMBOLS[:terms])}
    expected = {sympy.Add: sum, Max: max, Min: min}[operation](sizes.values())
    written = str(dimensions.text(size))
    assert runtime_value(written, sizes) == export_value(written, sizes) == expected
