"""What tracing an engine costs: nothing; and what it leaves behind: nothing."""

from __future__ import annotations

import copy
import gc
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._library.fake_class_registry import maybe_to_fake_obj
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, ExportedProgram

import trt_runtime
from trt_runtime import Engine

from .building import RELU_PLAN, Calls, relu_engine, relu_record

# torch copies programs with a class that it has deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

OP = torch.ops.trt_runtime.execute_engine.default
SHAPES = {"static": None, "dynamic": ({0: Dim("batch", min=2, max=16)},)}


def export(model: torch.nn.Module, strict: bool = False, shapes: str = "static") -> ExportedProgram:
    return torch.export.export(
        model, (torch.randn(4, 8),), strict=strict, dynamic_shapes=SHAPES[shapes]
    )


class Twice(torch.nn.Module):
    """One engine under two names and used three times, beside another."""

    def __init__(self) -> None:
        super().__init__()
        engine = relu_engine(name="shared")
        self.first, self.second = Calls(engine), Calls(engine)
        self.other = Calls(relu_engine(name="other"))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.other(self.second(self.first(self.first(x))))


STEPS: dict[str, Callable[[ExportedProgram], object]] = {
    "run_decompositions": lambda program: program.run_decompositions(),
    "run_decompositions twice": lambda program: program.run_decompositions().run_decompositions(),
    "an empty table": lambda program: program.run_decompositions({}),
    "module": lambda program: program.module(),
    "module of decomposed": lambda program: program.run_decompositions().module(),
    "unflatten": torch.export.unflatten,
    "export again": lambda program: export(program.module()),
    "export again, strict": lambda program: export(program.module(), strict=True),
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("model", [lambda: Calls(relu_engine()), Twice], ids=["one", "two"])
def test_nothing_is_serialized_copied_or_loaded(model, strict, shapes, counted) -> None:
    module = model()
    with counted() as grown:
        program = export(module, strict, shapes)
    assert grown == {}
    for name, step in STEPS.items():
        with counted() as grown:
            step(program)
        assert grown == {}, name


def test_the_engine_of_a_program_is_the_engine_itself() -> None:
    model = Calls(relu_engine())
    program = export(model).run_decompositions().run_decompositions({})
    assert program.constants == {"engine": model.engine}


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_the_calls_stay_plain_nodes_in_their_order(strict) -> None:
    program = export(Twice(), strict).run_decompositions().run_decompositions({})
    calls = [node for node in program.graph.nodes if node.target is OP]
    names = [node.args[1].name for node in calls]
    assert names[0] == names[1]
    assert len(set(names)) >= 2
    constants = program.graph_signature.inputs_to_lifted_custom_objs
    engines = [Engine(program.constants[constants[name]]).info.name for name in names]
    assert engines == ["shared", "shared", "shared", "other"]


def test_copies_and_files_serialize_nothing_either(counted) -> None:
    program, file = export(Calls(relu_engine())), io.BytesIO()
    with counted() as grown:
        copy.deepcopy(program)
        torch.export.save(program, file)
        file.seek(0)
        torch.export.load(file)
    assert grown == {}


MAKING: dict[str, Callable[[torch.nn.Module, str], object]] = {
    "export": lambda model, shapes: export(model, shapes=shapes),
    "run_decompositions": lambda model, shapes: export(model, shapes=shapes).run_decompositions(),
    "module": lambda model, shapes: export(model, shapes=shapes).run_decompositions({}).module(),
    "export again": lambda model, shapes: export(export(model, shapes=shapes).module()),
}


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("make", MAKING.values(), ids=MAKING.keys())
def test_an_engine_dies_with_the_last_program_that_holds_it(make, shapes) -> None:
    plan = bytes(bytearray(RELU_PLAN))
    references = sys.getrefcount(plan)
    made = make(Calls(Engine.from_plan(plan, relu_record())), shapes)
    assert sys.getrefcount(plan) > references
    del made
    gc.collect()
    assert sys.getrefcount(plan) == references


MEASURE = f"""
import gc, sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
import torch, trt_runtime
from runtime.building import Calls, relu_record

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 2**20

def export(shapes, size):
    plan = b"vtrt" + bytes(size)
    model = Calls(trt_runtime.Engine.from_plan(plan, relu_record(device="cuda:0")))
    torch.export.export(model, (torch.ones(4, 8),), dynamic_shapes=shapes).run_decompositions()

for shapes in (None, ({{0: torch.export.Dim("batch", min=2, max=16)}},)):
    export(shapes, 100)  # what torch loads and keeps once
    before = resident()
    for _ in range(5):
        export(shapes, 64 * 2**20)
    print(resident() - before)
"""


@pytest.mark.memory
def test_five_exports_of_a_large_engine_leave_no_memory() -> None:
    """With trt-runtime 0.1 they left several copies of each."""
    result = subprocess.run(
        [sys.executable, "-c", MEASURE], capture_output=True, text=True, check=True, timeout=300
    )
    static, dynamic = map(float, result.stdout.split())
    assert static < 32, f"{static:.0f} MB"
    assert dynamic < 32, f"{dynamic:.0f} MB"


def test_importing_again_registers_nothing_twice() -> None:
    result = subprocess.run(
        [
            *(sys.executable, "-W", "error", "-c"),
            "import sys, trt_runtime\n"
            "for name in [name for name in sys.modules if name.startswith('trt_runtime')]:\n"
            "    del sys.modules[name]\n"
            "import trt_runtime, trt_runtime.tracing\n"
            "trt_runtime.tracing.register()\n",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_a_fake_tensor_outside_of_its_mode_is_traced_too(counted) -> None:
    engine = relu_engine()
    with FakeTensorMode():
        x = torch.empty(3, 8)
    with counted() as grown:
        (y,) = engine(x)
    assert grown == {}
    assert type(y) is type(x)
    assert y.shape == (3, 8)


def test_where_torch_propagates_real_tensors_the_engine_runs(counted) -> None:
    """As draft_export does, to give real values to what follows."""
    with torch._functorch.config.patch(fake_tensor_propagate_real_tensors=True), counted() as grown:
        program = export(Calls(relu_engine()))
    assert grown["executor_loads"] == 1
    x = torch.randn(4, 8)
    assert torch.equal(program.module()(x), (x + 1).relu() * 2)


def test_methods_called_while_tracing_run_on_the_engine_itself(counted) -> None:
    """Once, and leave no node: a method that changed the engine would change the user's.

    So there must be none. These are all that it has.
    """

    class Asks(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.engine = relu_engine().script_object

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            assert self.engine.tracing_mode() == "real"
            self.engine.serialize()
            return OP([x], self.engine)[0]

    model = Asks()
    before = model.engine.serialize()
    with counted() as grown:
        program = export(model)
    assert grown == {"serializations": 1, "base64_encodes": 1}
    assert [str(n.target) for n in program.graph.nodes if n.op == "call_function"] == [
        str(OP),
        "<built-in function getitem>",
    ]
    assert model.engine.serialize() == before
    pure = {"__obj_flatten__", "serialize", "tracing_mode", "__eq__", "__ne__", "__getstate__"}
    pure |= {"serialize_metadata_only", "serialized_engine_tensor", "plan_sha256"}
    pure |= {"record", "capabilities"}
    assert set(relu_engine().script_object._method_names()) - {"__setstate__"} == pure


def test_a_typo_in_the_mode_would_stop_the_tracing() -> None:
    """By torch's own check; so the mode of an engine can only be one that torch knows."""

    class Typo:
        def tracing_mode(self) -> str:
            return "reel"

    mode = FakeTensorMode()
    with pytest.raises(AssertionError, match="can be either real or fake but got reel"):
        maybe_to_fake_obj(mode, Typo())
    engine = relu_engine().script_object
    assert maybe_to_fake_obj(mode, engine) is engine


class Listed(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.engines = [relu_engine(name=name).script_object for name in ("first", "second")]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for engine in self.engines:
            (x,) = OP([x], engine)
        return x


def test_engines_in_a_list_are_lifted_one_by_one() -> None:
    program = export(Listed())
    names = [Engine(engine).info.name for engine in program.constants.values()]
    assert names == ["first", "second"]
    x = torch.randn(4, 8)
    assert torch.equal(program.module()(x), x.relu())


def test_engines_in_a_list_are_more_than_strict_export_can() -> None:
    """Torch's own fault, and it says no more than this; non-strict, the default, is the way."""
    with pytest.raises(IndexError):
        export(Listed(), strict=True)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # torch's own, when it loads inductor
def test_the_default_backend_of_torch_compile_refuses_engines() -> None:
    """Inductor takes no object that is traced as itself. `torch.compiler.disable` is the way round."""
    compiled = torch.compile(Calls(relu_engine()))
    with pytest.raises(Exception, match="cannot extract sympy expressions from ScriptObject"):
        compiled(torch.randn(4, 8))


def test_stats_are_those_of_0_1_and_those_of_later_releases() -> None:
    assert set(trt_runtime.stats()) == {
        *("serializations", "deserializations", "base64_encodes", "base64_decodes"),
        *("plan_copies", "executor_loads", "delegate_bindings", "plan_hashes"),
    }
