"""Every model family gives the same results compiled as in eager PyTorch."""

import copy
from collections.abc import Callable

import pytest
import torch
from torch.export import ExportedProgram

import trt_runtime
from export.compiling.conftest import Compiled, saved_and_loaded
from models import FAMILIES, Family
from trt_export.plan import read_plan_header

Compile = Callable[[Family, str], Compiled]


def engines_of(program: ExportedProgram) -> list[trt_runtime.Engine]:
    objects = [
        value for value in program.constants.values() if isinstance(value, torch.ScriptObject)
    ]
    return [trt_runtime.Engine.from_script_object(value) for value in objects]


def assert_equal_to_eager(result: Compiled, program: ExportedProgram) -> None:
    """Compare outputs, arguments and buffers, call after call, at every size of the family."""
    family = result.family
    module = copy.deepcopy(result.module)
    compiled_module = copy.deepcopy(
        program
    ).module()  # calls change its buffers, and other tests use the program
    for sizes in (family.sizes, *family.other_sizes):
        for step in range(family.steps):
            torch.manual_seed(step)
            args, kwargs = family.inputs(*sizes)
            args_given, kwargs_given = copy.deepcopy((args, kwargs))
            torch.manual_seed(100)
            expected = module(*args, **kwargs)
            torch.manual_seed(100)
            found = compiled_module(*args_given, **kwargs_given)
            torch.testing.assert_close(
                found, expected, rtol=family.tolerance, atol=family.tolerance
            )
            torch.testing.assert_close((args_given, kwargs_given), (args, kwargs), rtol=0, atol=0)
    buffers = dict(compiled_module.named_buffers())
    for name, expected in module.named_buffers():
        if name in buffers:
            torch.testing.assert_close(
                buffers[name], expected, rtol=family.tolerance, atol=family.tolerance
            )


def test_onnxruntime_equals_eager(family: Family, compiled: Compile) -> None:
    result = compiled(family, "onnxruntime")
    assert_equal_to_eager(result, result.program)


def test_equals_eager_after_save_and_load(family: Family, compiled: Compile) -> None:
    result = compiled(family, "onnxruntime")
    assert_equal_to_eager(result, saved_and_loaded(result.program))


def test_a_saved_and_loaded_source_compiles_too(family: Family, compiled: Compile) -> None:
    from trt_export.compiling import compile

    result = compiled(family, "onnxruntime")
    loaded = saved_and_loaded(result.source)
    assert_equal_to_eager(result, compile(loaded, on_report=lambda report: None))


@pytest.mark.parametrize("builder", ["onnxruntime", "tensorrt-rtx"])
def test_only_what_no_builder_takes_stays_in_pytorch(
    family: Family, builder: str, compiled: Compile
) -> None:
    result = compiled(family, builder)
    assert result.operators_left == family.stays
    assert all(node.reason for node in result.report.left_in_pytorch)


@pytest.mark.parametrize("builder", ["onnxruntime", "tensorrt-rtx"])
def test_one_engine_per_stretch_between_operators_that_stay(
    family: Family, builder: str, compiled: Compile
) -> None:
    result = compiled(family, builder)
    assert len(engines_of(result.program)) == len(result.report.engines) == 1 + len(family.stays)


def test_tensorrt_rtx_makes_real_plans(family: Family, compiled: Compile) -> None:
    for engine in engines_of(compiled(family, "tensorrt-rtx").program):
        assert bytes(engine.plan[:4]) == b"vtrt"
        header = read_plan_header(engine.plan)
        assert header.format == "tensorrt-rtx"
        assert header.version == engine.info.provenance["builder_version"]
        assert (
            list(header.compute_capabilities or ())
            == engine.info.provenance["compute_capabilities"]
        )
        assert engine.info.device == "cuda:0"


def test_onnxruntime_plans_carry_their_provenance(family: Family, compiled: Compile) -> None:
    for engine in engines_of(compiled(family, "onnxruntime").program):
        header = read_plan_header(engine.plan)
        assert header.format == "onnxruntime"
        assert header.provenance is not None
        assert header.provenance["builder"] == "onnxruntime"
        assert engine.info.provenance["torch"] == torch.__version__
        assert engine.info.device == "cpu"


def test_signature_names_and_dynamic_shapes_are_kept(family: Family, compiled: Compile) -> None:
    result = compiled(family, "onnxruntime")
    source, program = result.source, result.program
    assert program.graph_signature.user_inputs == source.graph_signature.user_inputs
    assert len(program.graph_signature.user_outputs) == len(source.graph_signature.user_outputs)
    functional = source.run_decompositions(
        {}
    ).graph_signature  # only then are mutations in the signature
    mutated = set(functional.buffers_to_mutate.values())
    assert set(program.graph_signature.buffers_to_mutate.values()) == mutated
    assert program.call_spec == source.call_spec
    for symbol, constraint in program.range_constraints.items():
        assert source.range_constraints[symbol] == constraint


def test_the_source_is_not_changed(family: Family) -> None:
    from trt_export.compiling import compile

    module = family.make()
    source = family.export(module)
    graph, signature = str(source.graph), str(source.graph_signature)
    constraints, state = (
        dict(source.range_constraints),
        {k: v.clone() for k, v in source.state_dict.items()},
    )
    program = compile(source, on_report=lambda report: None)
    args, kwargs = family.inputs(*family.sizes)
    program.module()(*args, **kwargs)
    assert (str(source.graph), str(source.graph_signature)) == (graph, signature)
    assert source.range_constraints == constraints
    assert source.state_dict.keys() == state.keys()
    for name, value in state.items():
        assert torch.equal(source.state_dict[name], value), name


def test_the_program_decomposes_and_is_exported_again(family: Family, compiled: Compile) -> None:
    result = compiled(family, "onnxruntime")
    assert_equal_to_eager(result, result.program.run_decompositions())


def test_families_have_distinct_names() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
