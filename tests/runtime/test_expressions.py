"""Shape expressions: Python's own arithmetic, and nothing else of Python."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trt_runtime import InputError, RecordError
from trt_runtime.expressions import MAX_DEPTH, MAX_LENGTH, Expression

NAMES = ("i0d0", "i0d1", "i12d3")
VALUES = st.integers(-(2**40), 2**40)


def _combine(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(parts, st.sampled_from(["+", "-", "*", "//", "%"]), parts).map(
            lambda t: f"({t[0]} {t[1]} {t[2]})"
        ),
        parts.map(lambda part: f"-({part})"),
        st.tuples(st.sampled_from(["min", "max"]), st.lists(parts, min_size=2, max_size=4)).map(
            lambda t: f"{t[0]}({', '.join(t[1])})"
        ),
    )


EXPRESSIONS = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(0, 100).map(str)), _combine, max_leaves=12
).filter(lambda text: len(text) <= MAX_LENGTH)


@given(EXPRESSIONS, st.tuples(VALUES, VALUES, VALUES))
def test_means_what_python_means(text, values) -> None:
    dims = dict(zip(NAMES, values, strict=True))
    try:
        expected = eval(text, {"__builtins__": {"min": min, "max": max}}, dims)
    except ZeroDivisionError:
        with pytest.raises(InputError, match=r"expected no division by zero"):
            Expression(text)(dims)
    else:
        assert Expression(text)(dims) == expected


@given(st.text(alphabet="i0d1 +-*/%(),minax", max_size=30))
def test_any_text_is_evaluated_as_python_does_or_refused(text) -> None:
    dims = {"i0d0": 7, "i0d1": 3, "i1d0": 5, "i1d1": 2}
    try:
        found = Expression(text)
    except RecordError:
        return
    with suppress(InputError, KeyError):  # a division by zero, or a dimension that no input has
        assert found(dims) == eval(text.strip(), {"min": min, "max": max}, dims)


@given(st.text(max_size=50))
def test_no_text_gets_past_with_anything_but_an_answer_or_a_record_error(text) -> None:
    with suppress(RecordError):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "dims", "value"),
    [
        ("7", {}, 7),
        ("i0d0", {"i0d0": 5}, 5),
        ("(1 + ((-3 + i0d2) // 2))", {"i0d2": 8}, 3),
        ("-7 // 2", {}, -4),
        ("-7 % 3", {}, 2),
        ("7 // -2", {}, -4),
        ("7 % -3", {}, -2),
        ("2 - 3 - 4", {}, -5),
        ("min(i0d0, 3, 9)", {"i0d0": 5}, 3),
        ("max(i0d0, 3, 9)", {"i0d0": 5}, 9),
        ("i0d0*i0d0*i0d0", {"i0d0": 2**40}, 2**120),
        ("  i0d0\t+ 1 ", {"i0d0": 1}, 2),
        ("- - 3", {}, 3),
    ],
)
def test_examples(text, dims, value) -> None:
    assert Expression(text)(dims) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "i0",
        "i0d",
        "I0D0",
        "i0d0.real",
        "i0d0[0]",
        "i0d0()",
        "i0d0 i0d0",
        "1 2",
        "1.5",
        "1e3",
        "0x10",
        "1_000",
        "007",
        "1j",
        "True",
        "None",
        "'a'",
        "2 ** 3",
        "9**9**9",
        "2 * * 3",
        "4 / 2",
        "1 << 9",
        "1 | 2",
        "~1",
        "+1",
        "not 1",
        "1 if 1 else 2",
        "1 < 2",
        "(1, 2)",
        "1,",
        "[1]",
        "lambda: 1",
        "(i0d0 := 1)",
        "min()",
        "min(1)",
        "min",
        "max + 1",
        "min(*i0d0, 1)",
        "min(1, 2, key=i0d0)",
        "min(1, 2)(3)",
        "sum(1, 2)",
        "abs(1)",
        "__import__('os')",
        "().__class__",
        "i0d0; 1",
        "i0d0\n1",
        "i0d0 # comment",
        "1 +",
        "(1",
        "1)",
        "\0",
        "i0d0\0",
        "\uff490d0",  # a full-width i, which Python's parser takes for an i
        "i\u0660d0",  # Arabic-Indic zero
        "\uff11",
        "min (1, 2) + \u00a01",
    ],
)
def test_everything_else_is_refused(text) -> None:
    with pytest.raises(RecordError, match=r"shape expression"):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "(" * 499 + "1" + ")" * 499,
        "-" * 999 + "1",
        "1" + "+1" * 499,
        "min(1," * 140 + "1" + ")" * 140,
        "1" * 1001,
        "(" * 1_000_000,
        "-" * 10_000_000,
        "1" * 5_000,
    ],
    ids=lambda text: f"{text[:8]} x {len(text)}",
)
def test_size_and_depth_are_bounded_and_refused_fast(text) -> None:
    start = time.perf_counter()
    with pytest.raises(RecordError, match=rf"{MAX_LENGTH} characters and {MAX_DEPTH} levels"):
        Expression(text)
    assert time.perf_counter() - start < 10  # milliseconds, or for ever


def test_the_bounds_themselves_are_allowed() -> None:
    assert Expression("-" * (MAX_DEPTH - 1) + "1")({}) == -1
    assert Expression("1" * MAX_LENGTH)({}) == int("1" * MAX_LENGTH)
    with pytest.raises(RecordError, match=r"more than 50 levels"):
        Expression("-" * MAX_DEPTH + "1")


def test_a_division_by_zero_names_the_dimensions() -> None:
    with pytest.raises(InputError, match=r"'8 // \(i0d0 - 4\)'.* found one with i0d0=4"):
        Expression("8 // (i0d0 - 4)")({"i0d0": 4})


def test_symbolic_sizes_give_symbolic_sizes() -> None:
    class Shapes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            value = Expression("max((i0d0 - 1) // 2, i0d1 % 3, 1) + min(i0d0, i0d1)")(
                {"i0d0": x.size(0), "i0d1": x.size(1)}
            )
            return x.new_ones(value)

    dims = {0: torch.export.Dim("a", min=2, max=50), 1: torch.export.Dim("b", min=2, max=50)}
    program = torch.export.export(Shapes(), (torch.ones(6, 5),), dynamic_shapes=(dims,))
    for shape in ((6, 5), (2, 3), (50, 2), (7, 7)):
        a, b = shape
        expected = max((a - 1) // 2, b % 3, 1) + min(a, b)
        assert program.module()(torch.ones(shape)).shape == (expected,)
