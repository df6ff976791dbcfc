"""Shape expressions: Python's meaning, none of Python's powers."""

import contextlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from trt_export.engines.expressions import evaluate
from trt_export.errors import EngineRecordError

SIZES = {"i0d0": 7, "i0d1": 3, "i12d3": 10}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i0d0", 7),
        ("12", 12),
        ("(1 + ((-3 + i0d0) // 2))", 3),
        ("-i0d0 // 2", -4),
        ("-i0d0 % 4", 1),
        ("i0d0 * i0d1 - i12d3", 11),
        ("min(i0d0, i0d1, 5)", 3),
        ("max(i0d0, 2 * i0d1)", 7),
        ("max(4, 3)", 4),
    ],
)
def test_values(text: str, value: int) -> None:
    assert evaluate(text, SIZES) == value


def test_a_static_dimension_is_itself() -> None:
    assert evaluate(5, {}) == 5


@pytest.mark.parametrize(
    "text",
    [
        "",
        "9**9**9",
        "i0d0 / 2",
        "i0d0.real",
        "__import__('os')",
        "abs(i0d0)",
        "min()",
        "max(4)",
        "min(*i0d0)",
        "min(1, key=2)",
        "i0d0 if i0d0 else 1",
        "[1]",
        "1.5",
        "True",
        "'a'",
        "+i0d0",
        "1 < 2",
        "(lambda: 1)()",
        "1; 2",
        "x := 1",
        "i0d0\x00",
        "(" * 300,
        "-" * 60 + "1",
        "+".join(["1"] * 502),
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(EngineRecordError):
        evaluate(text, SIZES)


def test_a_name_that_no_input_has() -> None:
    with pytest.raises(
        EngineRecordError, match=r"names 'i5d0'; known are \['i0d0', 'i0d1', 'i12d3'\]"
    ):
        evaluate("i5d0 + 1", SIZES)


def test_division_by_zero() -> None:
    with pytest.raises(EngineRecordError, match="divides by zero"):
        evaluate("1 // (i0d0 - 7)", SIZES)


expressions = st.recursive(
    st.sampled_from([*SIZES, "1", "2", "3"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
            lambda parts: f"({' '.join(parts)})"
        ),
        inner.map(lambda text: f"(-{text})"),
        st.tuples(st.sampled_from(["min", "max"]), st.lists(inner, min_size=2, max_size=3)).map(
            lambda parts: f"{parts[0]}({', '.join(parts[1])})"
        ),
    ),
    max_leaves=12,
)


@given(expressions)
def test_any_expression_means_what_it_means_in_python(text: str) -> None:
    try:
        expected = eval(text, {"min": min, "max": max}, dict(SIZES))
    except ZeroDivisionError:
        with pytest.raises(EngineRecordError):
            evaluate(text, SIZES)
    else:
        assert evaluate(text, SIZES) == expected


@given(st.text(max_size=30))
def test_any_text_is_a_value_or_a_typed_error(text: str) -> None:
    with contextlib.suppress(EngineRecordError):
        evaluate(text, SIZES)


def test_symbolic_sizes_stay_symbolic() -> None:
    environment = ShapeEnv()
    symbol = environment.create_symbol(6, source=ConstantSource("n"))
    size = environment.create_symintnode(symbol, hint=6)
    value = evaluate("max(2 * i0d0 + 1, 3)", {"i0d0": size})
    assert isinstance(value, torch.SymInt)
    assert str(symbol) in str(value.node.expr)
    assert not environment.guards
