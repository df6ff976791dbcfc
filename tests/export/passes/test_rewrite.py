"""The rewritten program: same signature, shapes and numbers; the source as it was."""

import copy
import gc
import hashlib
import weakref
from typing import Any

import pytest
import torch
from torch.export import Dim, ExportedProgram, export

from export.preparing import prepare
from export.programs import (
    Calls,
    execute,
    one_call,
    one_output_engine,
    plan_of,
    rtx_plan,
    running_engine,
    two_output_engine,
)
from trt_export.engines.read import EngineReader
from trt_export.errors import LoweringError
from trt_export.formats import BACKENDS
from trt_export.passes import plan_store
from trt_export.passes.engine_op import execute_plan, is_execute_plan


def rewritten(program: ExportedProgram) -> ExportedProgram:
    return prepare({"forward": program})["forward"]


def calls_of(program: ExportedProgram) -> list[torch.fx.Node]:
    return [node for node in program.graph.nodes if is_execute_plan(node)]


def shapes(program: ExportedProgram) -> list[str]:
    """Names, shapes and dtypes of all tensors that the graph computes, except the calls' own."""
    return [
        f"{node.name} {node.meta['val'].shape} {node.meta['val'].dtype}"
        for node in program.graph.nodes
        if isinstance(node.meta.get("val"), torch.Tensor) and not is_execute_plan(node)
    ]


MODEL = Calls(
    lambda self, x, y: (
        torch.sigmoid(execute([x * self.scale, y], self.engine)[1]),
        execute([y, x], self.engine)[0],
    ),
    engine=running_engine(),
    scale=torch.full((8,), 0.5),
)


def test_numbers_are_the_same_at_every_size(running_op: None) -> None:
    batch = Dim("batch", min=1, max=16)
    program = export(
        MODEL, (torch.ones(2, 8), torch.zeros(2, 8)), dynamic_shapes=(({0: batch}, {0: batch}),)
    )
    made = rewritten(program)
    other = made.module()
    for size in (1, 2, 7, 16):
        x, y = torch.randn(size, 8), torch.randn(size, 8)
        for expected, found in zip(program.module()(x, y), other(x, y), strict=True):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(other(x, y)[1], y - x)


def test_state_is_written_back_outside(running_op: None) -> None:
    def step(self: Any, x: torch.Tensor) -> torch.Tensor:
        difference, product = execute([x, self.state], self.engine)
        self.state.copy_(difference)
        return product

    program = export(
        Calls(step, engine=running_engine(), state=torch.zeros(2, 8)), (torch.ones(2, 8),)
    )
    made = rewritten(program)
    expected, found = copy.deepcopy(program).module(), made.module()
    for _ in range(3):
        x = torch.randn(2, 8)
        torch.testing.assert_close(found(x), expected(x))
    torch.testing.assert_close(found.state, expected.state)


def test_shapes_and_names_stay() -> None:
    program = one_call()
    other = rewritten(program)
    assert shapes(other) == [line for line in shapes(program) if not line.startswith("getitem")]
    assert other.range_constraints == program.range_constraints
    assert other.graph_signature.user_outputs == program.graph_signature.user_outputs
    assert other.graph_signature.user_inputs == ("inputs_0",)
    assert program.graph_signature.user_inputs == ("inputs_0",)


def test_retracing_gives_the_shapes_of_the_source() -> None:
    """The op's own fake kernel agrees with the engine's."""
    model = Calls(
        lambda self, x, y: tuple(execute([x, y], self.engine)), engine=two_output_engine()
    )
    batch = Dim("batch", min=1, max=16)
    program = export(
        model, (torch.ones(2, 8), torch.zeros(2, 8)), dynamic_shapes=(({0: batch}, {0: batch}),)
    )
    retraced = rewritten(program).run_decompositions({})
    (call,) = calls_of(retraced)
    (original,) = (node for node in program.graph.nodes if node.name == "execute_engine")
    for found, expected in zip(call.meta["val"], original.meta["val"], strict=True):
        assert (str(found.shape), found.dtype) == (str(expected.shape), expected.dtype)


def test_outputs_are_on_the_device_of_the_graph() -> None:
    (call,) = calls_of(rewritten(one_call()))
    _, plan, backend, strings = call.args
    result = execute_plan(1)([torch.empty(3, 8, device="meta")], plan, backend, list(strings))
    assert (result.device.type, tuple(result.shape), result.dtype) == (
        "meta",
        (3, 4),
        torch.float32,
    )


def test_the_source_is_not_changed() -> None:
    program = one_call()
    before = (str(program), dict(program.constants), dict(program.state_dict))
    names = [node.name for node in program.graph.nodes]
    metas = [dict(node.meta) for node in program.graph.nodes]
    other = rewritten(program)
    assert other.graph is not program.graph
    assert (str(program), program.constants, program.state_dict) == before
    assert [node.name for node in program.graph.nodes] == names
    assert [dict(node.meta) for node in program.graph.nodes] == metas
    program.validate()


def test_weights_are_shared_with_the_source_not_copied() -> None:
    model = Calls(
        lambda self, x: execute([self.linear(x)], self.engine)[0],
        engine=one_output_engine(),
        linear=torch.nn.Linear(8, 8),
    )
    program = export(model, (torch.ones(2, 8),))
    other = rewritten(program)
    assert other.state_dict["linear.weight"] is program.state_dict["linear.weight"]


def test_the_engine_is_gone_and_its_plan_goes_by_the_key_of_its_content() -> None:
    other = rewritten(one_call())
    assert other.constants == {}
    assert other.state_dict == {}
    assert all("obj" not in node.name for node in other.graph.nodes)
    (call,) = calls_of(other)
    inputs, key, backend, record = call.args
    assert [node.name for node in inputs] == ["relu"]
    assert key == f"trt-plan-sha256-{hashlib.sha256(rtx_plan()).hexdigest()}"
    assert bytes(plan_store.find(key).data) == rtx_plan()
    assert backend in BACKENDS.values()
    assert all(isinstance(text, str) and len(text) < 1000 for text in record)


def test_a_plan_is_stored_as_long_as_someone_holds_it() -> None:
    held = one_output_engine(rtx_plan(300, seed=77))
    program = one_call(held)
    first, second = rewritten(program), rewritten(program)
    key = calls_of(first)[0].args[1]
    reference = weakref.ref(plan_store.find(key))
    del first
    gc.collect()
    assert reference() is plan_store.find(key)
    del second
    gc.collect()
    assert reference() is None
    with pytest.raises(
        LoweringError, match=f"expected the plan '{key}'.*lower the compiled program"
    ):
        plan_store.find(key)


def test_names_that_shadow_builtins_stay() -> None:
    model = Calls(
        lambda self, x: execute([x.sum(0, keepdim=True)], self.engine)[0],
        engine=one_output_engine(),
    )
    program = export(model, (torch.ones(2, 8),))
    for node in program.graph.nodes:
        if node.name == "sum_1":
            node.name = "sum"
    assert [line.split()[0] for line in shapes(rewritten(program))][1] == "sum"


def test_an_engine_used_twice_is_read_once_and_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = EngineReader._ask
    monkeypatch.setattr(
        EngineReader,
        "_ask",
        lambda self, method: asked.append(method) or real(self, method),
    )
    held = one_output_engine()
    model = Calls(
        lambda self, x: execute([x], self.engine)[0] + execute([x * 2], self.engine)[0], engine=held
    )
    program = export(model, (torch.ones(2, 8),))
    methods = prepare({"a": program, "b": program})
    assert len(asked) == len(set(asked)) <= 3
    keys = [call.args[1] for other in methods.values() for call in calls_of(other)]
    assert len(keys) == 4
    assert len(set(keys)) == 1


def test_duplicated_inputs_become_distinct_nodes() -> None:
    model = Calls(lambda self, x: execute([x, x], self.engine)[0], engine=two_output_engine())
    (call,) = calls_of(rewritten(export(model, (torch.ones(2, 8),))))
    first, second = call.args[0]
    assert first is not second
    assert second.target is torch.ops.aten.clone.default
    assert second.meta["val"].shape == first.meta["val"].shape


def test_a_single_output_returned_twice() -> None:
    def twice(self: Any, x: torch.Tensor) -> Any:
        (value,) = execute([x], self.engine)
        return value, value

    program = export(Calls(twice, engine=one_output_engine()), (torch.ones(2, 8),))
    other = rewritten(program)
    other.validate()
    assert other.graph_signature.user_outputs == program.graph_signature.user_outputs


def test_an_engine_held_as_attribute_of_the_graph_module() -> None:
    program = one_call()
    call = next(node for node in program.graph.nodes if node.name == "execute_engine")
    held = program.constants["engine"]
    program.graph_module.held = held
    with program.graph.inserting_before(call):
        source = program.graph.create_node("get_attr", "held")
    call.args = (call.args[0], source)
    other = rewritten(program)
    assert not any(node.op == "get_attr" for node in other.graph.nodes)
    assert not hasattr(other.graph_module, "held")
    (new,) = calls_of(other)
    assert bytes(plan_store.find(new.args[1]).data) == plan_of(held)
