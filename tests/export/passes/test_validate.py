"""Every program that cannot be lowered is refused by name, before anything has changed."""

from typing import Any

import pytest
import torch
from torch.export import ExportedProgram, export

from export.preparing import prepare
from export.programs import (
    Calls,
    binding,
    engine,
    execute,
    one_call,
    one_output_engine,
    onnxruntime_plan,
    result,
    rtx_plan,
    two_output_engine,
)
from trt_export.errors import (
    BindingMismatchError,
    BindingTypeError,
    ConstantDeviceError,
    CorruptPlanError,
    DynamicNumberError,
    LoweringError,
    NoEngineError,
    OutputAllocatorError,
    TrtExportError,
)


def with_engine(
    other: torch.ScriptObject, program: ExportedProgram | None = None
) -> ExportedProgram:
    """A program whose engine was exchanged for one that its graph was not made for."""
    program = program or one_call()
    program.constants["engine"] = other
    return program


def one_binding(*shape: int | str, dtype: str = "float32", largest: int = 16) -> dict[str, Any]:
    return binding("in_0", dtype, *shape, largest=largest)


OUTPUT = result("out_0", "float32", "i0d0", 4)


def test_a_good_program_passes() -> None:
    assert set(prepare({"forward": one_call()})) == {"forward"}


def test_no_engine_where_one_was_asked_for() -> None:
    program = export(torch.nn.ReLU(), (torch.ones(1),))
    with pytest.raises(NoEngineError, match=r"no engine call in 'a', 'b'.*trt_export\.compile"):
        prepare({"a": program, "b": program})
    with pytest.raises(NoEngineError):
        prepare({})


def test_one_method_may_be_without_engines() -> None:
    plain = export(torch.nn.ReLU(), (torch.ones(1),))
    assert set(prepare({"a": plain, "b": one_call()})) == {"a", "b"}


def test_a_module_is_no_program() -> None:
    with pytest.raises(LoweringError, match=r"method 'f' is a ReLU, expected an ExportedProgram"):
        prepare({"f": torch.nn.ReLU()})


def test_an_engine_that_needs_an_output_allocator() -> None:
    program = with_engine(one_output_engine(requires_output_allocator=True))
    with pytest.raises(OutputAllocatorError, match=r"'execute_engine'.*\['out_0'\].*nonzero"):
        prepare({"forward": program})


def test_an_engine_over_several_devices() -> None:
    with pytest.raises(LoweringError, match="spans several devices"):
        prepare({"forward": with_engine(one_output_engine(requires_native_multidevice=True))})


def test_too_many_inputs_names_both_sides() -> None:
    with pytest.raises(BindingMismatchError, match=r"2 inputs \['left', 'right'\].* 1: \['relu'\]"):
        prepare({"forward": with_engine(two_output_engine())})


def test_too_few_outputs_names_both_sides() -> None:
    other = engine([one_binding("i0d0", 8)], [OUTPUT, result("out_1", "bool")])
    with pytest.raises(BindingMismatchError, match=r"2 outputs \['out_0', 'out_1'\].* 1: "):
        prepare({"forward": with_engine(other)})


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (
            one_binding("i0d0", 8, dtype="float16"),
            OUTPUT,
            "is float16 in the engine, float32 in the graph",
        ),
        (
            one_binding("i0d0", 8),
            {**OUTPUT, "dtype": "float64"},
            "output 'out_0'.* is float64 in the engine",
        ),
        (
            one_binding(8),
            {**OUTPUT, "shape": [4, 4]},
            r"rank 1 \[8\] in the engine, rank 2 \[s\d+, 8\]",
        ),
        (one_binding("i0d0", 9), OUTPUT, "dimension 1 is 9 in the engine, 8 in the graph"),
        (
            one_binding("i0d0", "i0d1", largest=7),
            OUTPUT,
            "dimension 1 is 1 to 7 in the engine, 8 in",
        ),
        (
            one_binding(4, 8),
            {**OUTPUT, "shape": [4, 4]},
            r"dimension 0 is 4 in the engine, s\d+ in the graph",
        ),
        (
            one_binding("i0d0", 8),
            {**OUTPUT, "shape": ["i0d0", 5]},
            "output .*dimension 1 is 5 in the engine, 4",
        ),
    ],
)
def test_a_tensor_that_does_not_fit_its_binding(
    inputs: dict[str, Any], outputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(BindingTypeError, match=message) as caught:
        prepare({"decode": with_engine(engine([inputs], [outputs]))})
    assert "method 'decode', node 'execute_engine'" in str(caught.value)


def test_an_input_is_named_by_binding_and_by_node() -> None:
    other = engine([one_binding("i0d0", 8, dtype="int64")], [OUTPUT])
    with pytest.raises(
        BindingTypeError, match=r"input 'in_0' of engine call 'execute_engine' \('relu' in"
    ):
        prepare({"forward": with_engine(other)})


def double_program(plan: bytes) -> ExportedProgram:
    held = engine([binding("x", "float64", 2)], [result("y", "float64", 2)], plan)
    model = Calls(lambda self, x: execute([x], self.engine)[0], engine=held)
    return export(model, (torch.ones(2, dtype=torch.float64),))


def test_float64_is_refused_for_tensorrt_which_computes_it_in_float32() -> None:
    with pytest.raises(
        BindingTypeError, match="float64, which tensorrt-rtx engines compute in float32"
    ):
        prepare({"forward": double_program(rtx_plan())})


def test_float64_is_taken_for_onnxruntime() -> None:
    import onnx

    prepare({"forward": double_program(onnxruntime_plan(onnx.ModelProto()))})


def test_constants_that_are_not_on_the_cpu() -> None:
    program = one_call()
    program.state_dict["some.weight"] = torch.empty(2, device="meta")
    with pytest.raises(
        ConstantDeviceError, match=r"'some\.weight' of method 'a' is on meta.*model\.cpu"
    ):
        prepare({"a": program})


def test_a_damaged_plan_is_found_before_it_is_written() -> None:
    # The runtime checks the digest only when the engine runs, which is not here.
    wrong = {"format": "tensorrt-rtx", "size": 200, "sha256": "0" * 64}
    inputs, outputs = [one_binding("i0d0", 8)], [OUTPUT]
    program = with_engine(engine(inputs, outputs, rtx_plan(), plan=wrong))
    with pytest.raises(CorruptPlanError, match=r"method 'f', node 'execute_engine': .*sha256"):
        prepare({"f": program})


def test_all_methods_are_validated_before_the_first_is_rewritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewritten: list[object] = []
    monkeypatch.setattr("trt_export.passes.prepare.rewrite", lambda *a: rewritten.append(a))
    with pytest.raises(TrtExportError):
        prepare({"good": one_call(), "bad": with_engine(two_output_engine())})
    assert rewritten == []


def test_a_node_without_a_shape() -> None:
    program = one_call()
    next(node for node in program.graph.nodes if node.name == "relu").meta.pop("val")
    with pytest.raises(LoweringError, match=r"'relu' carries no shape"):
        prepare({"forward": program})


@pytest.mark.parametrize(("kind", "value"), [("int", 3), ("nested int", [3])])
def test_a_number_that_may_change_is_refused(kind: str, value: Any) -> None:
    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, n: Any) -> torch.Tensor:
            return self.called(x) * (n[0] if isinstance(n, list) else n)

        def called(self, x: torch.Tensor) -> torch.Tensor:
            return torch.ops.trt_runtime.execute_engine([x], self.engine)[0]

    module = Scaled()
    module.engine = one_output_engine()
    dynamic = torch.export.Dim.DYNAMIC
    program = export(
        module,
        (torch.ones(2, 8), value),
        dynamic_shapes={"x": None, "n": [dynamic] if isinstance(value, list) else dynamic},
    )
    with pytest.raises(
        DynamicNumberError, match=r"input 'n.*' of method 'decode': .*take a tensor"
    ):
        prepare({"good": one_call(), "decode": program})
