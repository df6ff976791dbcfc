"""torch.export, its passes and its files, with engines in the program."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch.export import Dim, ExportedProgram

import trt_runtime
from trt_runtime import Engine, TrtRuntimeError

from .building import Calls, binding, engine_of, relu_engine

# torch copies programs with a class that it has deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

OP = torch.ops.trt_runtime.execute_engine.default
BATCH = ({0: Dim("batch", min=2, max=16)},)
SIZES = (2, 3, 16)


def expected(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu() * 2


def export(
    model: torch.nn.Module, *args: torch.Tensor, strict: bool = False, **more
) -> ExportedProgram:
    return torch.export.export(model, args, strict=strict, **more)


def saved_and_loaded(program: ExportedProgram) -> ExportedProgram:
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    return torch.export.load(file)


def exported_again(program: ExportedProgram) -> ExportedProgram:
    return export(program.module(), torch.randn(4, 8), dynamic_shapes=BATCH)


STEPS = {
    "as it is": lambda program: program,
    "run_decompositions": lambda program: program.run_decompositions(),
    "no decompositions": lambda program: program.run_decompositions({}),
    "deepcopy": copy.deepcopy,
    "save and load": saved_and_loaded,
    "export again": exported_again,
    "decomposed, saved and loaded": lambda program: saved_and_loaded(program.run_decompositions()),
    "loaded and decomposed": lambda program: saved_and_loaded(program).run_decompositions(),
    "loaded, exported again and loaded": lambda program: saved_and_loaded(
        exported_again(saved_and_loaded(program))
    ),
}


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS.keys())
def test_a_program_with_an_engine_computes_the_same_after(step, strict) -> None:
    program = export(Calls(relu_engine()), torch.randn(4, 8), strict=strict, dynamic_shapes=BATCH)
    module = step(program).module()
    for size in SIZES:
        x = torch.randn(size, 8)
        assert torch.equal(module(x), expected(x))


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_a_model_may_hold_the_typed_engine_itself(strict) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = relu_engine()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.engine(x + 1)[0] * 2

    program = export(Model(), torch.randn(4, 8), strict=strict, dynamic_shapes=BATCH)
    x = torch.randn(3, 8)
    assert torch.equal(saved_and_loaded(program.run_decompositions()).module()(x), expected(x))


def test_the_node_of_an_engine_stays_what_it_is() -> None:
    """Not wrapped in `with_effects`, where a pass that looks for the operator would not find it."""
    program = export(Calls(relu_engine()), torch.randn(4, 8)).run_decompositions()
    (node,) = [node for node in program.graph.nodes if node.target is OP]
    assert len(node.args) == 2
    assert not [node for node in program.graph.nodes if "with_effects" in str(node.target)]


def test_the_output_keeps_the_inputs_symbol_and_the_bindings_dtype() -> None:
    engine = engine_of(
        [("IsNaN", ["in"], ["nan"])],
        [binding("in", "float32", ["i0d0", 8], {0: (1, 16)})],
        [binding("nan", "bool", ["i0d0", 8])],
    )

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = engine.script_object

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return OP([x], self.engine)[0]

    program = export(Model(), torch.randn(4, 8), dynamic_shapes=BATCH)
    nodes = {node.name: node.meta.get("val") for node in program.graph.nodes}
    assert nodes["getitem"].dtype == torch.bool
    assert str(nodes["getitem"].shape[0]) == str(nodes["x"].shape[0])


def test_derived_dimensions_are_traced() -> None:
    engine = engine_of(
        [("Concat", ["a", "b"], ["c"], {"axis": 0})],
        [
            binding("a", "float32", ["i0d0"], {0: (1, 32)}),
            binding("b", "float32", ["i0d0 * 2"], {0: (2, 64)}),
        ],
        [binding("c", "float32", ["i0d0 + i0d0 * 2"])],
    )

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = engine.script_object

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return OP([x, torch.cat([x, x])], self.engine)[0]

    program = export(Model(), torch.randn(4), dynamic_shapes=({0: Dim("n", min=2, max=32)},))
    x = torch.randn(7)
    for module in (program.module(), saved_and_loaded(program).module()):
        assert torch.equal(module(x), torch.cat([x, x, x]))


def test_unbacked_sizes_become_runtime_assertions() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = relu_engine().script_object

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return OP([x[x[:, 0] > 0]], self.engine)[0]

    module = export(Model(), torch.randn(6, 8), dynamic_shapes=({0: Dim.DYNAMIC},)).module()
    x = torch.ones(5, 8)
    assert torch.equal(module(x), x)
    with pytest.raises(RuntimeError):
        module(torch.ones(17, 8))


def test_wrong_inputs_are_found_while_tracing() -> None:
    model = Calls(relu_engine())
    with pytest.raises(RuntimeError, match=r"expected 8 in dimension 1 .*, found 7"):
        export(model, torch.randn(4, 7))
    with pytest.raises(RuntimeError, match=r"expected dtype torch.float32, found torch.float64"):
        export(model, torch.randn(4, 8, dtype=torch.float64))
    with pytest.raises(RuntimeError, match=r"expected 1 to 16 in dimension 0 .*, found 17"):
        export(model, torch.randn(17, 8))


def test_a_range_beyond_the_engines_is_found_while_tracing() -> None:
    with pytest.raises(torch._dynamo.exc.UserError, match=r"16"):
        export(
            Calls(relu_engine()), torch.randn(4, 8), dynamic_shapes=({0: Dim("b", min=2, max=64)},)
        )


def test_a_range_left_to_torch_becomes_the_engines() -> None:
    program = export(Calls(relu_engine()), torch.randn(4, 8), dynamic_shapes=({0: Dim.AUTO},))
    (limits,) = program.range_constraints.values()
    assert limits.upper == 15 or limits.upper == 16


def test_a_size_that_two_inputs_share_is_one_symbol() -> None:
    engine = engine_of(
        [("Add", ["a", "b"], ["c"])],
        [
            binding("a", "float32", ["i0d0", 2], {0: (1, 16)}),
            binding("b", "float32", ["i0d0", 2], {0: (1, 16)}),
        ],
        [binding("c", "float32", ["i0d0", 2])],
    )

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = engine.script_object

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return OP([a, b], self.engine)[0]

    args = torch.ones(4, 2), torch.ones(4, 2)
    one = Dim("n", min=2, max=16)
    module = export(Model(), *args, dynamic_shapes=({0: one}, {0: one})).module()
    assert module(torch.ones(9, 2), torch.ones(9, 2)).sum() == 36
    other = Dim("m", min=2, max=16)
    with pytest.raises(torch._dynamo.exc.UserError):
        export(Model(), *args, dynamic_shapes=({0: one}, {0: other}))


class Nested(torch.nn.Module):
    """Engines in submodules, one of them called twice, and one shared by two modules."""

    def __init__(self) -> None:
        super().__init__()
        shared = relu_engine(name="shared")
        self.first = Calls(shared)
        self.second = Calls(shared)
        self.other = torch.nn.Sequential(Calls(relu_engine(name="other")), torch.nn.Linear(8, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.second(self.first(self.first(x))))


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize(
    "step", [STEPS["as it is"], STEPS["run_decompositions"], STEPS["save and load"]]
)
def test_several_engines_and_one_used_several_times(step, strict) -> None:
    model = Nested()
    program = step(export(model, torch.randn(4, 8), strict=strict, dynamic_shapes=BATCH))
    calls = [node for node in program.graph.nodes if node.target is OP]
    assert len(calls) == 4
    for size in SIZES:
        x = torch.randn(size, 8)
        with torch.no_grad():
            torch.testing.assert_close(program.module()(x), model(x))


def test_the_constants_of_a_program_are_engines() -> None:
    program = saved_and_loaded(export(Nested(), torch.randn(4, 8)))
    names = [
        Engine.from_script_object(constant).info.name
        for constant in program.constants.values()
        if isinstance(constant, torch.ScriptObject)
    ]
    assert set(names) == {"shared", "other"}


def test_restore_engines_of_0_1_still_has_its_name() -> None:
    program = export(Calls(relu_engine()), torch.randn(4, 8), strict=True)
    constants = dict(program.constants)
    assert trt_runtime.restore_engines(program) is program
    assert program.constants == constants


def test_the_meta_device_gives_shapes() -> None:
    (y,) = relu_engine()(torch.empty(3, 8, device="meta"))
    assert y.device.type == "meta"
    assert y.shape == (3, 8)


def test_a_program_traced_on_the_cpu_may_hold_an_engine_for_a_gpu() -> None:
    engine = relu_engine(device="cuda:0")
    program = export(Calls(engine), torch.randn(4, 8), dynamic_shapes=BATCH).run_decompositions()
    (outputs,) = program.graph.output_node().args
    assert outputs[0].meta["val"].device.type == "cpu"
    with pytest.raises(TrtRuntimeError, match="cuda:0"):
        program.module()(torch.randn(4, 8))


def test_backward_through_an_engine_is_an_error() -> None:
    x = torch.randn(2, 8, requires_grad=True)
    y = relu_engine()(x)[0] * 2
    assert y.requires_grad
    with pytest.raises(
        RuntimeError, match=r"execute_engine: expected no gradient .*, found backward\(\)"
    ):
        y.sum().backward()
    assert x.grad is None


def test_without_a_gradient_asked_for_there_is_none() -> None:
    x = torch.randn(2, 8, requires_grad=True)
    engine = relu_engine()
    with torch.no_grad():
        assert not engine(x)[0].requires_grad
    with torch.inference_mode():
        assert torch.equal(engine(x)[0], x.relu())
    assert not engine(x.detach())[0].requires_grad


def test_integer_outputs_need_no_gradient() -> None:
    engine = engine_of(
        [("Shape", ["in"], ["out"])],
        [binding("in", "float32", [2, 3], {})],
        [binding("out", "int64", [2])],
    )
    (shape,) = engine(torch.ones(2, 3, requires_grad=True))
    assert shape.tolist() == [2, 3]
    assert not shape.requires_grad


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_an_engine_is_demanded(device) -> None:
    with pytest.raises(trt_runtime.InputError, match=r"expected an engine, found None; pass"):
        OP([torch.ones(1, 8, device=device)], None)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_torch_compile_traces_an_engine_and_asks_for_no_gradient_of_it(requires_grad) -> None:
    compiled = torch.compile(Calls(relu_engine()), backend="aot_eager", fullgraph=True)
    x = torch.randn(4, 8, requires_grad=requires_grad)
    y = compiled(x)
    assert torch.equal(y, expected(x))
    assert not y.requires_grad
