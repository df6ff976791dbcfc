"""Puts engine calls into a program in place of the nodes that went into the engines."""

import heapq
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    CustomObjArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from torch.fx import Graph, Node
from torch.utils._sympy.value_ranges import ValueRanges

import trt_runtime
from trt_export.compiling.report import EngineVerification
from trt_export.compiling.subprogram import Subprogram
from trt_export.compiling.support import is_metadata_check
from trt_export.initial_state import initial_values

_ENGINE_CLASS = "__torch__.torch.classes.trt_runtime.Engine"


@dataclass(frozen=True)
class BuiltPartition:
    """A partition and the engine made of it; the engine's bindings are in the sub-program's order."""

    subprogram: Subprogram
    engine: trt_runtime.Engine
    verification: EngineVerification


def splice(
    program: ExportedProgram,
    built: Sequence[BuiltPartition],
    constraints: Mapping[sympy.Symbol, ValueRanges[Any]],
) -> ExportedProgram:
    """Turn `program` into the compiled program. Its graph is edited in place: it must be our own.

    Weights that nothing but engines uses leave the signature and the state. What stays shares its memory with
    `program`, but for tensors that running the program changes: these are copied, and their values are kept beside
    them for `to_edge`, because running the compiled program changes them too.
    """
    graph = program.graph
    old = program.graph_signature
    mutated = {*old.buffers_to_mutate.values(), *old.parameters_to_mutate.values()}
    used_before = {node for node in graph.nodes if node.users}
    results: dict[Node, Node] = {}
    engines: dict[str, trt_runtime.Engine] = {}
    for partition in built:
        for node in partition.subprogram.nodes:
            for check in [user for user in node.users if is_metadata_check(user)]:
                graph.erase_node(check)
        placeholder = _add_engine(program, partition.engine.info.name)
        engines[placeholder.name] = partition.engine
        _call(graph, partition, placeholder, results)
    for partition in built:
        for node in reversed(partition.subprogram.nodes):
            graph.erase_node(node)
    for node, result in results.items():
        result.name = node.name  # by which the signature knows it, if it is an output
    _sort(graph)
    weights = {
        spec.arg.name
        for spec in old.input_specs
        if isinstance(spec.arg, TensorArgument)
        and spec.kind is not InputKind.USER_INPUT
        and spec.target not in mutated
    }
    for node in reversed(graph.nodes):
        is_size = node.op == "call_function" and isinstance(node.meta.get("val"), torch.SymInt)
        if not node.users and (node.name in weights or (is_size and node in used_before)):
            graph.erase_node(node)

    present = {node.name for node in graph.find_nodes(op="placeholder")}
    engine_specs = [
        InputSpec(InputKind.CUSTOM_OBJ, CustomObjArgument(name, _ENGINE_CLASS), name)
        for name in engines
    ]
    kept = [
        spec
        for spec in old.input_specs
        if not hasattr(spec.arg, "name") or spec.arg.name in present
    ]
    first_user = next(
        (i for i, spec in enumerate(kept) if spec.kind is InputKind.USER_INPUT), len(kept)
    )
    signature = ExportGraphSignature(
        kept[:first_user] + engine_specs + kept[first_user:],
        list(old.output_specs),
    )
    targets = {spec.target for spec in signature.input_specs}
    constants = {name: value for name, value in program.constants.items() if name in targets}
    return ExportedProgram(
        root=program.graph_module,
        graph=graph,
        graph_signature=signature,
        state_dict={
            name: _own(value, name in mutated)
            for name, value in program.state_dict.items()
            if name in targets
        },
        range_constraints=dict(constraints),
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants={
            **{
                name: value.clone() if name in mutated else value
                for name, value in constants.items()
            },
            **{name: engine.script_object for name, engine in engines.items()},
            **initial_values(
                {
                    name: value
                    for name, value in (*program.state_dict.items(), *constants.items())
                    if name in mutated and name in targets and isinstance(value, torch.Tensor)
                }
            ),
        },
        verifiers=program.verifiers,
    )


def _add_engine(program: ExportedProgram, name: str) -> Node:
    """Add a placeholder for an engine before the first user input; its name is that of the constant too."""
    taken = {*program.state_dict, *program.constants, *(node.name for node in program.graph.nodes)}
    while name in taken:
        name = f"{name}_"
    placeholders = program.graph.find_nodes(op="placeholder")
    kinds = {
        spec.arg.name: spec.kind
        for spec in program.graph_signature.input_specs
        if hasattr(spec.arg, "name")
    }
    first_user = next(
        (node for node in placeholders if kinds.get(node.name) is InputKind.USER_INPUT), None
    )
    before = first_user or next(node for node in program.graph.nodes if node.op != "placeholder")
    with program.graph.inserting_before(before):
        placeholder = program.graph.create_node("placeholder", name, name=name)
    assert isinstance(placeholder, Node)
    placeholder.meta["val"] = CustomObjArgument(placeholder.name, _ENGINE_CLASS)
    return placeholder


def _call(graph: Graph, partition: BuiltPartition, engine: Node, results: dict[Node, Node]) -> None:
    """Call the engine where the partition's first node is; add what stands for its outputs now to `results`."""
    subprogram = partition.subprogram
    inputs = [results.get(node, node) for node in subprogram.inputs]
    with graph.inserting_before(subprogram.nodes[0]):
        call = graph.call_function(torch.ops.trt_runtime.execute_engine.default, (inputs, engine))
        call.meta["val"] = [node.meta["val"] for node in subprogram.outputs]
        for position, node in enumerate(subprogram.outputs):
            result = graph.call_function(operator.getitem, (call, position))
            result.meta = dict(node.meta)
            node.replace_all_uses_with(result)
            results[node] = result


def _sort(graph: Graph) -> None:
    """Order the nodes so that each comes after what it uses, and else stay as they are.

    A partition's call is where its first node was; an input of its last node may come later.
    """
    position = {node: number for number, node in enumerate(graph.nodes)}
    waiting = {node: len(node.all_input_nodes) for node in position}
    ready = [(number, node) for node, number in position.items() if not waiting[node]]
    anchor: Node = graph._root
    while ready:
        _, node = heapq.heappop(ready)
        anchor.append(node)
        anchor = node
        for user in node.users:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (position[user], user))


def _own(value: torch.Tensor, mutated: bool) -> torch.Tensor:
    """Return the tensor for the compiled program, which is for inference: no gradient passes an engine."""
    data = value.detach().clone() if mutated else value.detach()
    return (
        torch.nn.Parameter(data, requires_grad=False)
        if isinstance(value, torch.nn.Parameter)
        else data
    )
