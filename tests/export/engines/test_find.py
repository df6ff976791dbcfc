"""Finding engine calls, wherever torch puts the engine."""

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from executorch.exir.program._program import lift_constant_tensor_pass
from torch._export.passes.lift_constants_pass import ConstantAttrMap, lift_constants_pass
from torch.export import ExportedProgram, export
from torch.export.graph_signature import InputKind

import trt_runtime
from export.programs import Calls, execute, one_call, one_output_engine
from trt_export.engines.find import find_calls
from trt_export.errors import EngineObjectError, LoweringError


def test_an_engine_lifted_to_a_placeholder() -> None:
    program = one_call()
    (call,) = find_calls(program)
    assert call.node.name == "execute_engine"
    assert [node.name for node in call.inputs] == ["relu"]
    assert call.source.op == "placeholder"
    assert isinstance(call.engine, torch.ScriptObject)


def held_as_attribute(held: Any = None, name: str = "held") -> ExportedProgram:
    """The same program, its engine fetched by a get_attr node."""
    program = one_call()
    (call,) = find_calls(program)
    module, _, attribute = name.rpartition(".")
    if module:
        program.graph_module.add_submodule(module, torch.nn.Module())
    setattr(
        program.graph_module.get_submodule(module), attribute, call.engine if held is None else held
    )
    with program.graph.inserting_before(call.node):
        source = program.graph.create_node("get_attr", name)
    source.meta = {**call.node.meta, "val": call.source.meta["val"]}
    call.node.args = (call.node.args[0], source)
    program.graph.erase_node(call.source)
    signature = program.graph_signature
    signature.input_specs = [
        spec for spec in signature.input_specs if spec.kind is not InputKind.CUSTOM_OBJ
    ]
    program.constants.clear()
    return program


@pytest.mark.parametrize("name", ["held", "part.held"])
def test_an_engine_that_is_an_attribute_of_the_graph_module(name: str) -> None:
    held = one_output_engine()
    (call,) = find_calls(held_as_attribute(held, name))
    assert (call.source.op, call.source.target) == ("get_attr", name)
    assert call.engine is held


class FakeScriptObject:
    """As torch's: the methods of a fake class, and the engine in `real_obj`."""

    def __init__(self, real_obj: torch.ScriptObject) -> None:
        self.real_obj = real_obj


@pytest.mark.parametrize("wrap", [FakeScriptObject, trt_runtime.Engine.from_script_object])
def test_an_engine_in_a_wrapper(wrap: Callable[[torch.ScriptObject], Any]) -> None:
    held = one_output_engine()
    lifted = one_call()
    lifted.constants["engine"] = wrap(held)
    for program in (held_as_attribute(wrap(held)), lifted):
        (call,) = find_calls(program)
        assert call.engine is held


def test_before_and_after_torch_has_lifted_it() -> None:
    held = one_output_engine()
    program = held_as_attribute(held)
    module, signature = program.graph_module, program.graph_signature
    constants = lift_constants_pass(module, signature, ConstantAttrMap())
    lifted = ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict={},
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        constants=constants,
        verifiers=program.verifiers,
    )
    (call,) = find_calls(lifted)
    assert call.source.op == "placeholder"
    assert call.engine is held


@pytest.mark.parametrize("make", [one_call, held_as_attribute])
def test_before_and_after_executorch_has_lifted_constants(
    make: Callable[[], ExportedProgram],
) -> None:
    program = make()
    program.graph_module.register_buffer("loose", torch.ones(4))
    (add,) = (node for node in program.graph.nodes if node.target is torch.ops.aten.add.Tensor)
    with program.graph.inserting_before(add):
        loose = program.graph.get_attr("loose")
    loose.meta["val"] = add.meta["val"].fake_mode.from_tensor(torch.ones(4))
    add.args = (add.args[0], loose)
    (before,) = find_calls(program)
    (after,) = find_calls(lift_constant_tensor_pass(program))
    assert after.engine is before.engine
    assert not any(node.target == "loose" for node in program.graph.nodes)


def test_a_wrapper_that_is_not_known_is_an_error_that_names_the_node() -> None:
    class Box:
        def __init__(self) -> None:
            self.content = one_output_engine()

    with pytest.raises(
        EngineObjectError, match=r"'execute_engine' \('held'\) is a Box, not a Torch"
    ):
        find_calls(held_as_attribute(Box()))


def test_an_attribute_that_is_not_there() -> None:
    program = held_as_attribute()
    del program.graph_module.held
    with pytest.raises(
        EngineObjectError, match="should be the attribute 'held', which is not there"
    ):
        find_calls(program)


def test_an_engine_that_another_node_computes() -> None:
    program = one_call()
    (call,) = find_calls(program)
    with program.graph.inserting_before(call.node):
        chosen = program.graph.call_function(max, (call.source, call.source))
    call.node.args = (call.node.args[0], chosen)
    with pytest.raises(
        EngineObjectError, match="'execute_engine' comes from call_function node 'max"
    ):
        find_calls(program)


def test_a_higher_order_op_that_is_not_known() -> None:
    program = one_call()
    (call,) = find_calls(program)
    call.node.args = (call.node.target, *call.node.args)
    call.node.target = torch.ops.higher_order.auto_functionalized
    with pytest.raises(
        LoweringError, match=r"node 'execute_engine' wraps .* in auto_functionalized"
    ):
        find_calls(program)


def test_an_engine_that_is_used_otherwise_than_by_a_call() -> None:
    program = one_call()
    (call,) = find_calls(program)
    with program.graph.inserting_before(call.node):
        program.graph.call_function(
            torch.ops.higher_order.call_torchbind, (call.source, "serialize")
        )
    with pytest.raises(
        LoweringError, match=r"node 'call_torchbind' .* uses the engine 'obj_engine'"
    ):
        find_calls(program)


def test_arguments_by_name() -> None:
    program = one_call()
    (call,) = find_calls(program)
    inputs, engine = call.node.args
    call.node.args, call.node.kwargs = (), {"engine": engine, "inputs": inputs}
    (again,) = find_calls(program)
    assert again == call


def test_after_decompositions_and_after_saving() -> None:
    program = one_call()
    assert len(find_calls(program.run_decompositions())) == 1
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert len(find_calls(torch.export.load(file))) == 1


def test_engines_of_submodules_and_one_engine_used_twice() -> None:
    shared = one_output_engine()
    model = torch.nn.Module()
    model.first = Calls(lambda self, x: execute([x], self.engine)[0], engine=shared)
    model.second = Calls(lambda self, x: execute([x], self.engine)[0], engine=shared)
    model.third = Calls(lambda self, x: execute([x], self.engine)[0], engine=one_output_engine())
    model.forward = lambda x: model.first(x) + model.second(x) + model.third(x)
    calls = find_calls(export(model, (torch.ones(2, 8),)))
    assert len(calls) == 3
    assert calls[0].identity == calls[1].identity != calls[2].identity


def test_a_program_without_engines() -> None:
    assert find_calls(export(torch.nn.ReLU(), (torch.ones(1),))) == ()


def test_an_engine_that_is_no_torchbind_object() -> None:
    program = one_call()
    program.constants["engine"] = object()
    with pytest.raises(EngineObjectError, match=r"'execute_engine'.*is a object, not a TorchBind"):
        find_calls(program)


def test_an_engine_that_is_not_there() -> None:
    program = one_call()
    del program.constants["engine"]
    with pytest.raises(EngineObjectError, match="'engine' of call 'execute_engine' is not among"):
        find_calls(program)


def test_an_engine_that_the_caller_passes() -> None:
    model = Calls(lambda self, x, engine: execute([x], engine)[0])
    program = export(model, (torch.ones(2, 8), one_output_engine()))
    with pytest.raises(EngineObjectError, match="is the program's own input"):
        find_calls(program)


def test_no_engine_at_all() -> None:
    program = one_call()
    (call,) = find_calls(program)
    call.node.args = (call.node.args[0], None)
    with pytest.raises(EngineObjectError, match="has no engine, its argument is None"):
        find_calls(program)


def test_a_call_in_a_branch_is_refused_not_missed() -> None:
    # torch 2.13 cannot export an engine in torch.cond, so the branch is put there by hand.
    program = one_call()
    program.graph_module.add_submodule("true_graph_0", one_call().graph_module)
    with pytest.raises(LoweringError, match=r"'execute_engine' is inside 'true_graph_0'"):
        find_calls(program)
