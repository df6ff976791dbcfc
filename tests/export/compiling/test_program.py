"""What the compiled program is: its parts, its names, its state, and what it does not share with the source."""

import copy
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export
from torch.nn import functional

import trt_runtime
from export.compiling.conftest import Compiled, saved_and_loaded
from models import FAMILIES, CachedDecoder
from trt_export.builders import OnnxFile
from trt_export.builders.onnxruntime import OnnxRuntimeBuilder
from trt_export.compiling import CompileReport, compile
from trt_export.errors import ComputeCapabilityError, NothingToCompileError, UnsupportedProgramError

FAMILY = {family.name: family for family in FAMILIES}
Compile = Callable[..., Compiled]


def compiled_from(module: nn.Module, *args: Any, **options: Any) -> ExportedProgram:
    return compile(
        export(module.eval(), args, dynamic_shapes=options.pop("dynamic_shapes", None)), **options
    )


def assert_same(module: nn.Module, program: ExportedProgram, *args: Any) -> None:
    torch.testing.assert_close(program.module()(*copy.deepcopy(args)), module(*args))


def test_weights_inside_plans_leave_the_program(compiled: Compile) -> None:
    program = compiled(FAMILY["residual_convnet"], "onnxruntime").program
    assert not program.state_dict
    assert [node.name for node in program.graph.find_nodes(op="placeholder")] == [
        "engine_0",
        "image",
    ]


def test_a_mutated_buffer_stays_in_the_program_and_is_a_copy(compiled: Compile) -> None:
    result = compiled(FAMILY["cached_decoder"], "onnxruntime")
    assert set(result.program.state_dict) == {"keys", "values"}
    for name, value in result.program.state_dict.items():
        assert value.data_ptr() != result.source.state_dict[name].data_ptr()


def test_state_is_carried_on_from_where_a_saved_program_left_it() -> None:
    module = CachedDecoder().eval()
    reference = copy.deepcopy(module)
    program = compile(export(module, (torch.tensor([[1]]),)))
    running = program.module()
    for token in (3, 4):
        torch.testing.assert_close(
            running(torch.tensor([[token]])), reference(torch.tensor([[token]]))
        )
    # `program` and its module share the buffers, so that saving the program saves the state.
    resumed = saved_and_loaded(program).module()
    torch.testing.assert_close(resumed.keys, reference.keys)


def test_a_mutated_input_is_written_back() -> None:
    class Mutate(nn.Module):
        def forward(self, x: Tensor, y: Tensor) -> Tensor:
            x.add_(y)
            return x * 2

    program = compiled_from(Mutate(), torch.ones(3), torch.ones(3))
    x = torch.ones(3)
    torch.testing.assert_close(program.module()(x, torch.ones(3)), torch.full((3,), 4.0))
    torch.testing.assert_close(x, torch.full((3,), 2.0))


def test_names_that_engines_use_may_be_taken_already() -> None:
    class Names(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.out_0 = nn.Parameter(torch.randn(4))
            self.in_1 = nn.Parameter(torch.randn(4))
            self.register_buffer("engine_0", torch.randn(4))

        def forward(self, in_0: Tensor, engine_0: Tensor) -> tuple[Tensor, Tensor]:
            return sum([in_0 * self.out_0, self.engine_0]), engine_0 + self.in_1

    module, args = Names(), (torch.randn(4), torch.randn(4))
    program = compiled_from(module, *args)
    assert program.graph_signature.user_inputs == ("in_0", "engine_0")
    with torch.no_grad():
        assert_same(module, program, *args)


def test_nested_inputs_and_outputs_keep_their_structure() -> None:
    class Nested(nn.Module):
        def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
            return {"sum": batch["a"] + batch["pair"][0], "rest": [batch["pair"][1] * 2]}

    args = ({"a": torch.randn(3), "pair": (torch.randn(3), torch.randn(2))},)
    assert_same(Nested(), compiled_from(Nested(), *args), *args)


def test_results_that_the_onnx_optimizer_makes_one_stay_apart() -> None:
    class Same(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, ...]:
            y = x + 1
            return (
                functional.dropout(x, 0.5, False),
                y,
                functional.dropout(y, 0.5, False),
                x.clone(),
            )

    program = compiled_from(Same(), torch.randn(3))
    assert_same(Same(), program, torch.randn(3))


def test_results_that_are_weights_or_constants_are_kept() -> None:
    class Weights(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3), requires_grad=False)

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            return x * self.weight, self.weight, torch.tensor([1, 2, 3])

    module = Weights()
    assert_same(module, compiled_from(module, torch.randn(3)), torch.randn(3))


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (3, 0, 2)], ids=str)
def test_scalars_and_empty_tensors_work(shape: tuple[int, ...]) -> None:
    class Scale(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x.sum()

    assert_same(Scale(), compiled_from(Scale(), torch.ones(shape)), torch.ones(shape))


def test_an_empty_batch_works_where_the_program_allows_it() -> None:
    module = nn.Linear(4, 2)
    program = compiled_from(module, torch.ones(3, 4), dynamic_shapes=({0: Dim("batch", max=8)},))
    assert program.module()(torch.ones(0, 4)).shape == (0, 2)


def test_equal_dimensions_are_enforced(compiled: Compile) -> None:
    result = compiled(FAMILY["derived_dims"], "onnxruntime")
    module = saved_and_loaded(result.program).module()
    ones = torch.ones
    with pytest.raises(Exception, match=r"5|2\*x|in_|size"):
        module(ones(4, 4), ones(8, 4), ones(5, 4), ones(5, 4))


def test_gradients_are_refused_rather_than_lost() -> None:
    module = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    x = torch.ones(2, 4, requires_grad=True)
    program = compile(export(module, (torch.ones(2, 4),)))
    with pytest.raises(Exception, match=r"gradient|autograd|backward|derivative"):
        program.module()(x).sum().backward()


def test_parameters_outside_engines_ask_for_no_gradients() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rate = nn.Parameter(torch.full((4,), 0.5))

        def forward(self, x: Tensor) -> Tensor:
            return torch.bernoulli(self.rate) * x + 1

    program = compile(export(Mixed(), (torch.ones(4),)), on_report=lambda report: None)
    assert not any(parameter.requires_grad for parameter in program.parameters())
    assert not program.module()(torch.ones(4)).requires_grad


def test_compiling_again_leaves_the_engines_as_they_are() -> None:
    with pytest.raises(NothingToCompileError, match="it is an engine already"):
        compile(compiled_from(nn.ReLU(), torch.ones(3)))


def test_a_program_with_an_engine_gets_further_ones(compiled: Compile) -> None:
    class Refuse(OnnxRuntimeBuilder):
        refused_dtypes: ClassVar = {"int64": "not with this builder"}

    class Both(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 2.5).long() * 3

    once = compiled_from(Both(), torch.ones(3), builder=Refuse(), on_report=lambda report: None)
    reports: list[CompileReport] = []
    twice = compile(once, on_report=reports.append)
    objects = [value for value in twice.constants.values() if isinstance(value, torch.ScriptObject)]
    assert len(objects) == 2
    assert {node.operator for node in reports[0].left_in_pytorch} == {
        "trt_runtime.execute_engine.default"
    }
    assert_same(Both(), twice, torch.ones(3))


def test_shared_weights_and_one_engine_per_partition() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.embed(tokens))

    module = Tied()
    with torch.no_grad():
        assert_same(module, compiled_from(module, torch.tensor([1, 2])), torch.tensor([1, 2]))


def test_plans_name_no_place_of_this_machine(compiled: Compile) -> None:
    program = compiled(FAMILY["mlp"], "onnxruntime").program
    plan = bytes(trt_runtime.Engine.from_script_object(program.constants["engine_0"]).plan)
    assert b"site-packages" not in plan
    assert b"/tests/" not in plan


@pytest.mark.parametrize("builder", ["onnxruntime", "tensorrt-rtx"])
def test_plans_are_the_same_every_time(builder: str, compiled: Compile) -> None:
    result = compiled(FAMILY["mlp"], builder)
    again = compile(FAMILY["mlp"].export(result.module), builder=builder)
    first, second = (
        trt_runtime.Engine.from_script_object(program.constants["engine_0"]).info.plan
        for program in (result.program, again)
    )
    assert first == second


def test_progress_and_report_tell_what_happened(compiled: Compile) -> None:
    steps: list[tuple[str, int, int]] = []
    reports: list[CompileReport] = []
    source = compiled(FAMILY["bernoulli_between"], "onnxruntime").source
    compile(source, on_progress=lambda *step: steps.append(step), on_report=reports.append)
    phases = list(dict.fromkeys(phase for phase, _, _ in steps))
    assert phases == ["decompose", "partition", "onnx", "check", "build", "verify", "splice"]
    assert all(done < total for _, done, total in steps)
    (report,) = reports
    assert set(report.seconds) == set(phases)
    assert [engine.name for engine in report.engines] == ["engine_0", "engine_1"]
    assert report.engines[0].operators == {"aten.linear.default": 1, "aten.sigmoid.default": 1}
    assert [(node.name, node.operator) for node in report.left_in_pytorch] == [
        ("bernoulli", "aten.bernoulli.default")
    ]


def test_without_a_report_what_stays_is_logged(
    compiled: Compile, caplog: pytest.LogCaptureFixture
) -> None:
    compile(compiled(FAMILY["bernoulli_between"], "onnxruntime").source)
    (record,) = (record for record in caplog.records if record.name == "trt_export")
    assert "aten.bernoulli.default: it is random" in record.getMessage()


def test_what_is_no_exported_program_is_refused() -> None:
    with pytest.raises(UnsupportedProgramError, match=r"torch\.export\.export"):
        compile(nn.Linear(2, 2))  # type: ignore[arg-type]


def test_capabilities_belong_to_the_making_of_a_builder() -> None:
    with pytest.raises(ComputeCapabilityError, match="when making the Builder"):
        compile(
            export(nn.ReLU(), (torch.ones(2),)),
            builder=OnnxRuntimeBuilder(),
            compute_capabilities=["8.6"],
        )


def test_the_weights_are_not_copied_on_the_way_to_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    pointers: list[int] = []
    original = OnnxFile.chunks

    def chunks(self: OnnxFile) -> list[memoryview]:
        pieces = list(original(self))
        import numpy as np

        pointers.extend(np.frombuffer(piece, np.uint8).ctypes.data for piece in pieces)
        return pieces

    monkeypatch.setattr(OnnxFile, "chunks", chunks)
    module = nn.Linear(64, 64)
    with warnings.catch_warnings():
        compiled_from(module, torch.ones(2, 64))
    assert module.weight.data_ptr() in pointers
