"""The bindings of an engine in the order of its delegate's arguments, matched by node and by index."""

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.engines.metadata import Binding
from trt_export.engines.record import EngineRecord
from trt_export.errors import LoweringError
from trt_export.passes.engine_op import is_execute_plan, record_of
from trt_export.passes.plan_store import StoredPlan, find


@dataclass(frozen=True)
class DelegateCall:
    """The one engine call of a delegate; `inputs` and `outputs` are in the order of the delegate's arguments."""

    record: EngineRecord
    plan: StoredPlan
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]


def read_call(program: ExportedProgram) -> DelegateCall:
    """The engine call in the subgraph of a delegate.

    Raises:
        LoweringError: the subgraph is not one engine call whose arguments and results are exactly
            the engine's bindings.
    """
    calls = [node for node in program.graph.nodes if is_execute_plan(node)]
    if len(calls) != 1:
        raise LoweringError(f"a delegate runs one engine, this one was given {len(calls)}")
    call = calls[0]
    inputs, key, _, strings = call.args
    record = record_of(tuple(strings))
    return DelegateCall(
        record,
        find(key),
        tuple(_inputs(program, list(inputs), record)),
        tuple(_outputs(program, call, record)),
    )


def _inputs(
    program: ExportedProgram, inputs: Sequence[Node], record: EngineRecord
) -> list[Binding]:
    arguments = [node for node in program.graph.nodes if node.op == "placeholder"]
    if len(set(inputs)) != len(inputs) or set(arguments) != set(inputs):
        raise LoweringError(
            f"the delegate of engine {record.name!r} has the arguments {_names(arguments)},"
            f" its engine the inputs {_names(inputs)}"
        )
    return [record.inputs[inputs.index(node)] for node in arguments]


def _outputs(program: ExportedProgram, call: Node, record: EngineRecord) -> list[Binding]:
    (results,) = program.graph.output_node().args
    assert isinstance(results, Sequence)
    indices = [_output_index(node, call) for node in results]
    if sorted(indices) != list(range(len(record.outputs))):
        raise LoweringError(
            f"the delegate of engine {record.name!r} gives outputs {indices} of its call,"
            f" the engine has {len(record.outputs)}: {[binding.name for binding in record.outputs]}"
        )
    return [record.outputs[index] for index in indices]


def _output_index(node: object, call: Node) -> int:
    """Which output of the call a result is; -1 for none of them."""
    if node is call:
        return 0
    if isinstance(node, Node) and node.target is operator.getitem and node.args[0] is call:
        return int(node.args[1])  # type: ignore[arg-type]
    return -1


def _names(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]
