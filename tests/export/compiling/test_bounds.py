"""Dynamic dimensions: their bounds come from the program and from the user, and are enforced."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram, export

import trt_runtime
from export.compiling.conftest import saved_and_loaded
from trt_export.compiling import compile
from trt_export.errors import DynamicShapeError, UnboundedDimensionError


class Add(torch.nn.Module):
    def forward(self, tokens: Tensor, other: Tensor) -> Tensor:
        return tokens + other


def program_of(dim: Any) -> ExportedProgram:
    return export(Add(), (torch.ones(3, 4), torch.ones(3, 4)), dynamic_shapes=({0: dim}, {0: dim}))


def bounds_of(program: ExportedProgram) -> list[tuple[int, ...]]:
    engine = trt_runtime.Engine.from_script_object(program.constants["engine_0"])
    return [
        bounds[:1]
        for bounds in (
            engine.info.inputs[0].min,
            engine.info.inputs[0].opt,
            engine.info.inputs[0].max,
        )
    ]


@pytest.mark.parametrize("builder", ["onnxruntime", "tensorrt-rtx"])
def test_bounds_are_those_of_the_program_and_opt_is_its_example(builder: str) -> None:
    compiled = compile(program_of(Dim("rows", min=3, max=9)), builder=builder)
    assert bounds_of(compiled) == [(3,), (3,), (9,)]


def test_a_dimension_without_maximum_is_an_error_that_says_how_to_bound_it() -> None:
    with pytest.raises(UnboundedDimensionError) as error:
        compile(program_of(Dim("rows")))
    for part in (
        "dimension 0 of input 'tokens'",
        "torch.export.Dim('rows', max=",
        'dynamic={"tokens.0"',
    ):
        assert part in str(error.value)


@pytest.mark.parametrize("name", ["tokens.0", "other.0", "rows"])
def test_a_dimension_is_bounded_by_input_or_by_the_name_of_its_dim(name: str) -> None:
    compiled = compile(program_of(Dim("rows")), dynamic={name: (1, 4, 16)})
    assert bounds_of(compiled) == [(1,), (4,), (16,)]
    module = compiled.module()
    for rows in (1, 16):
        assert module(torch.ones(rows, 4), torch.ones(rows, 4)).shape == (rows, 4)
    with pytest.raises(Exception, match="16"):
        module(torch.ones(17, 4), torch.ones(17, 4))


def test_a_dimension_of_a_loaded_program_is_bounded_by_input_or_symbol() -> None:
    program = saved_and_loaded(program_of(Dim("rows")))
    (symbol,) = program.range_constraints
    for name in ("tokens.0", str(symbol)):
        assert bounds_of(compile(program, dynamic={name: (1, 4, 16)})) == [(1,), (4,), (16,)]
    with pytest.raises(
        DynamicShapeError, match=r"no dynamic dimension 'rows'; dynamic dimensions: tokens.0"
    ):
        compile(program, dynamic={"rows": (1, 4, 16)})


def test_bounds_reach_torch_and_not_the_source() -> None:
    source = program_of(Dim.DYNAMIC)
    compiled = compile(source, dynamic={"tokens.0": (1, 4, 16)})

    def upper(program: ExportedProgram) -> str:
        size = next(iter(program.graph.find_nodes(op="output"))).args[0][0].meta["val"].shape[0]
        return str(size.node.shape_env.bound_sympy(size.node.expr).upper)

    (constraint,) = compiled.range_constraints.values()
    assert (int(constraint.lower), int(constraint.upper)) == (1, 16)
    assert upper(compiled) == "16"
    assert upper(source) == "int_oo"
    assert str(*source.range_constraints.values()) == "VR[2, int_oo]"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ((1, 4), "expected \\(min, opt, max\\)"),
        ((4, 1, 16), "min <= opt <= max"),
        ((-1, 4, 16), "0 <= min"),
        ((0, 0, 0), "opt >= 1"),
        ((1, 4, 1.5), "expected \\(min, opt, max\\)"),
        ((True, 4, 16), "expected \\(min, opt, max\\)"),
        ((2, 4, 10), "outside what the program was exported for"),
    ],
)
def test_bounds_that_make_no_sense_are_refused(sizes: Any, message: str) -> None:
    with pytest.raises(DynamicShapeError, match=message):
        compile(program_of(Dim("rows", min=2, max=9)), dynamic={"tokens.0": sizes})


@pytest.mark.parametrize("name", ["tokens.1", "tokens", "nothing.0", "s999"])
def test_a_name_that_is_no_dynamic_dimension_lists_those_there_are(name: str) -> None:
    with pytest.raises(DynamicShapeError, match=r"tokens\.0 \(rows\), other\.0"):
        compile(program_of(Dim("rows", max=9)), dynamic={name: (1, 4, 9)})


def test_a_derived_dimension_is_bounded_by_what_it_follows_from() -> None:
    rows = Dim("rows")

    class Cat(torch.nn.Module):
        def forward(self, x: Tensor, twice: Tensor) -> Tensor:
            return torch.cat([x, twice])

    program = export(
        Cat(), (torch.ones(3, 4), torch.ones(6, 4)), dynamic_shapes=({0: rows}, {0: 2 * rows})
    )
    with pytest.raises(DynamicShapeError, match="follows from"):
        compile(program, dynamic={"twice.0": (2, 4, 8)})
    compiled = compile(program, dynamic={"x.0": (1, 3, 8)})
    info = trt_runtime.Engine.from_script_object(compiled.constants["engine_0"]).info
    assert [binding.max for binding in info.inputs] == [(8, 4), (16, 4)]
    assert info.inputs[1].shape == ("(2 * i0d0)", 4)


def test_a_dimension_bounded_twice_under_two_names_is_an_error() -> None:
    with pytest.raises(DynamicShapeError, match=r"are the same dimension .*: bound it once"):
        compile(program_of(Dim("batch")), dynamic={"tokens.0": (2, 2, 4), "batch": (1, 2, 8)})
