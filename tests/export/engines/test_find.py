"""Finding engine calls, wherever torch puts the engine."""

import io

import pytest
import torch
from torch.export import export

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


def test_an_engine_that_is_an_attribute_of_the_graph_module() -> None:
    program = one_call()
    (call,) = find_calls(program)
    program.graph_module.held = call.engine
    with program.graph.inserting_before(call.node):
        source = program.graph.create_node("get_attr", "held")
    call.node.args = (call.node.args[0], source)
    (again,) = find_calls(program)
    assert again.source is source
    assert again.identity == call.identity


def test_arguments_by_name() -> None:
    program = one_call()
    (call,) = find_calls(program)
    inputs, engine = call.node.args
    call.node.args, call.node.kwargs = (), {"engine": engine, "inputs": inputs}
    (again,) = find_calls(program)
    assert again == call


def test_an_engine_in_a_fake_wrapper_is_unwrapped() -> None:
    class FakeScriptObject:
        def __init__(self, real_obj: torch.ScriptObject) -> None:
            self.real_obj = real_obj

    program = one_call()
    (call,) = find_calls(program)
    program.constants["engine"] = FakeScriptObject(call.engine)
    (again,) = find_calls(program)
    assert again.engine is call.engine


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
