"""Sizes over symbols become expressions over the dimensions of an engine's inputs."""

import pytest
import sympy
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.export import Dim, export
from torch.utils._sympy.functions import CeilToInt, FloorDiv, IntTrueDiv, Mod

from trt_export.engines.shapes import Inexpressible, InputDimensions, size_of

S, T = (sympy.Symbol(name, integer=True, positive=True) for name in "st")


def fake_inputs(*specs: object, **sizes: Dim) -> list[torch.Tensor]:
    """Return fake tensors whose dimensions are the given Dims (or expressions of them)."""

    class Sum(torch.nn.Module):
        def forward(self, *tensors: torch.Tensor) -> list[torch.Tensor]:
            return [tensor + 1 for tensor in tensors]

    tensors = tuple(
        torch.zeros([4 if dim is None else int(dim[1]) for dim in spec]) for spec in specs
    )
    shapes = tuple({i: dim[0] for i, dim in enumerate(spec) if dim is not None} for spec in specs)
    program = export(Sum(), tensors, dynamic_shapes=(shapes,))
    return [node.meta["val"] for node in program.graph.find_nodes(op="placeholder")]


BATCH, LENGTH = Dim("batch", min=2, max=16), Dim("length", min=2, max=64)


def test_a_symbol_is_named_after_the_first_dimension_that_has_it() -> None:
    first, second = fake_inputs([(BATCH, 3), None], [(LENGTH, 5), (BATCH, 3)])
    dimensions = InputDimensions([first, second])
    assert dimensions.shape(first) == ("i0d0", 4)
    assert dimensions.shape(second) == ("i1d0", "i0d0")


def test_a_derived_dimension_is_an_expression_if_its_symbol_is_known() -> None:
    twice, plain = fake_inputs([(2 * BATCH, 6)], [(BATCH, 3)])
    assert InputDimensions([twice, plain]).shape(twice) == ("(2 * i1d0)",)


def test_a_derived_dimension_alone_is_free_and_tells_its_symbol() -> None:
    twice, plain = fake_inputs([(2 * BATCH, 6)], [(BATCH, 3)])
    dimensions = InputDimensions([twice])
    assert dimensions.shape(twice) == ("i0d0",)
    assert dimensions.shape(plain) == ("(i0d0 // 2)",)


def test_a_size_that_no_input_tells_is_refused_with_its_symbol() -> None:
    known, unknown = fake_inputs([(BATCH, 3)], [(LENGTH, 5)])
    symbol = size_of(unknown.shape[0])
    with pytest.raises(Inexpressible, match=str(symbol)):
        InputDimensions([known]).shape(unknown)


@pytest.mark.parametrize(
    "expression",
    [
        S**3 + 1,
        FloorDiv(S - 3, 2) + 1,
        Mod(S, 4) * T,
        sympy.Max(S, T, 5),
        sympy.Min(S, 7) - T,
        CeilToInt(IntTrueDiv(S, 3)),
        -S + 40,
        (S + T) ** 2,
    ],
    ids=str,
)
@given(s=st.integers(2, 30), t=st.integers(2, 30))
def test_text_means_what_the_expression_means(expression: sympy.Expr, s: int, t: int) -> None:
    dimensions = InputDimensions([])
    dimensions._solutions = {
        S: sympy.Symbol("i0d0", integer=True),
        T: sympy.Symbol("i0d1", integer=True),
    }
    text = str(dimensions.text(expression))
    assert "**" not in text
    assert eval(text, {"min": min, "max": max}, {"i0d0": s, "i0d1": t}) == int(
        expression.subs({S: s, T: t})
    )


@pytest.mark.parametrize("expression", [S / 2, sympy.sqrt(S), S**20, sympy.Float(1.5) * S], ids=str)
def test_what_is_no_small_integer_arithmetic_is_refused(expression: sympy.Expr) -> None:
    dimensions = InputDimensions([])
    dimensions._solutions = {S: sympy.Symbol("i0d0", integer=True)}
    with pytest.raises(Inexpressible):
        dimensions.text(expression)


def test_a_text_too_long_for_the_record_is_refused() -> None:
    dimensions = InputDimensions([])
    dimensions._solutions = {S: sympy.Symbol("i0d0", integer=True)}
    with pytest.raises(Inexpressible, match="too long"):
        dimensions.text(sum((Mod(S, n) for n in range(2, 200)), sympy.Integer(0)))
