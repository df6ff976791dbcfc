"""What `run_decompositions` makes of single operators, asked once for all that are alike.

`ExportedProgram.run_decompositions` traces the whole program again, twice. Most operators come out as they went in,
and those that do not are few and alike: a language model of 30 layers has some twenty kinds. So a small program is
made that has one of each kind, and what torch makes of it says what becomes of all.
"""

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch.export import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from trt_export.compiling.support import values_of
from trt_export.engines.shapes import size_of


class NotAlikeError(Exception):
    """Part of a program cannot be decomposed by its nodes; the message says why."""


@dataclass(frozen=True)
class Template:
    """What becomes of a call: nodes in order, whose arguments are nodes before them and `inputs`.

    `inputs` are placeholders for the nodes that the call takes, in the order of `all_input_nodes`. `results` are nodes
    or inputs; `mutated` are the new values of the inputs that the call changes in place.
    """

    inputs: tuple[Node, ...]
    nodes: tuple[Node, ...]
    results: tuple[Node, ...]
    mutated: Mapping[int, Node]

    def is_call_of(self, target: OpOverload) -> bool:
        """Whether the operator came out whole."""
        calls = [node for node in self.nodes if node.target is not operator.getitem]
        return not self.mutated and [node.target for node in calls] == [target]


class Templates:
    """What one table of decompositions makes of operators.

    `asked` counts the calls that torch was asked about. Operators that came out whole once, though they are neither in
    the table nor composed of others, are not asked about again.
    """

    def __init__(self, table: Mapping[Any, Callable[..., Any]]) -> None:
        self.table = table
        usual = torch.export.default_decompositions()
        self._kept = {
            target
            for target in usual
            if target not in table
            and isinstance(target, OpOverload)
            and not target._schema.is_mutable
        }
        self._whole: set[OpOverload] = set()
        self.asked = 0

    def of(self, program: ExportedProgram, nodes: Iterable[Node]) -> dict[Node, Template]:
        """Return what becomes of nodes of a program; what is missing stays as it is.

        Raises:
            NotAlikeError: they cannot be asked about one by one.
            Exception: what torch raises.
        """
        keys = {node: call_key(node) for node in nodes if isinstance(node.target, OpOverload)}
        found: dict[Hashable, Template] = {}
        while unknown := self._unknown(keys, found):
            found |= _ask(program, unknown, self.table)
            self.asked += len(unknown)
            for key, node in unknown.items():
                assert isinstance(node.target, OpOverload)
                if not self._may_differ(node.target) and found[key].is_call_of(node.target):
                    self._whole.add(node.target)
        stays = self._kept | self._whole
        return {node: found[key] for node, key in keys.items() if node.target not in stays}

    def _unknown(
        self, keys: Mapping[Node, Hashable], found: Mapping[Hashable, Template]
    ) -> dict[Hashable, Node]:
        """Return one node for each kind of call to ask about: the first of an operator alone, if that may do."""
        asked_targets = {node.target for node, key in keys.items() if key in found}
        unknown: dict[Hashable, Node] = {}
        first: set[OpOverload] = set()
        for node, key in keys.items():
            target = node.target
            assert isinstance(target, OpOverload)
            if target in self._kept or target in self._whole or key in found or key in unknown:
                continue
            if not self._may_differ(target) and target not in asked_targets:
                if target in first:
                    continue
                first.add(target)
            unknown[key] = node
        return unknown

    def _may_differ(self, target: OpOverload) -> bool:
        """Whether what becomes of the operator may depend on its arguments."""
        return (
            target in self.table
            or target._schema.is_mutable
            or target.has_kernel_for_dispatch_key(torch._C.DispatchKey.CompositeImplicitAutograd)
        )


def call_key(node: Node) -> Hashable:
    """Return what two calls have in common if the same becomes of them: the operator and all about its arguments."""
    positions = {used: position for position, used in enumerate(node.all_input_nodes)}

    def described(argument: Any) -> Hashable:
        if isinstance(argument, Node):
            return positions[argument], *(_description(value) for value in values_of(argument))
        if isinstance(argument, (tuple, list)):
            return tuple(described(each) for each in argument)
        return type(argument), repr(argument)

    return (
        node.target,
        tuple(described(argument) for argument in node.args),
        tuple((name, described(argument)) for name, argument in sorted(node.kwargs.items())),
    )


def _description(value: Any) -> Hashable:
    if isinstance(value, torch.SymInt):
        return "size", size_of(value)
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        raise NotAlikeError(f"it has a {type(value).__name__} as a value")
    return (
        value.dtype,
        str(value.device),
        tuple(map(size_of, value.shape)),
        tuple(map(size_of, value.stride())),
    )


def _ask(
    program: ExportedProgram,
    calls: Mapping[Hashable, Node],
    table: Mapping[Any, Callable[..., Any]],
) -> dict[Hashable, Template]:
    """Make a program of one call of each kind, and take apart what torch makes of it."""
    small, outputs = _program_of(program, list(calls.values()))
    decomposed = small.run_decompositions(dict(table))
    nodes = {node.name: node for node in decomposed.graph.nodes}
    inputs = list(decomposed.graph.find_nodes(op="placeholder"))
    signature = decomposed.graph_signature
    if decomposed.constants or len(inputs) != len(signature.user_inputs):
        raise NotAlikeError("decompositions make constants")
    mutated = {
        nodes[target]: nodes[name] for name, target in signature.user_inputs_to_mutate.items()
    }
    results = [nodes[str(name)] for name in signature.user_outputs]
    order = {node: position for position, node in enumerate(decomposed.graph.nodes)}
    found: dict[Hashable, Template] = {}
    for (key, node), count in zip(calls.items(), outputs, strict=True):
        number = len(node.all_input_nodes)
        own, inputs = inputs[:number], inputs[number:]
        made, results = results[:count], results[count:]
        changed = {i: mutated[each] for i, each in enumerate(own) if each in mutated}
        between = _between(own, [*made, *changed.values()])
        between.sort(key=order.__getitem__)
        found[key] = Template(tuple(own), tuple(between), tuple(made), changed)
    return found


def _between(inputs: Sequence[Node], results: Sequence[Node]) -> list[Node]:
    """Return the nodes that results are made with; sizes are left out, since each is known by its expression."""
    found: dict[Node, None] = {}
    todo = list(results)
    while todo:
        node = todo.pop()
        if node in found or node in inputs or isinstance(node.meta.get("val"), torch.SymInt):
            continue
        if node.op != "call_function" or not (
            isinstance(node.target, OpOverload) or node.target is operator.getitem
        ):
            raise NotAlikeError(f"a decomposition needs {node.format_node()}")
        found[node] = None
        todo += node.all_input_nodes
    return list(found)


def _another(value: Any) -> Any:
    """Return a fake tensor that is alike; what shares memory is not told apart by torch."""
    if not isinstance(value, torch.Tensor):
        return value
    mode = value.fake_mode  # type: ignore[attr-defined]
    # Making a tensor asks whether sizes are 1: no question of the program's, so no guard for it.
    with mode, mode.shape_env.suppress_guards() if mode.shape_env else nullcontext():
        return torch.empty_strided(
            value.size(), value.stride(), dtype=value.dtype, device=value.device
        )


def _program_of(
    program: ExportedProgram, calls: Sequence[Node]
) -> tuple[ExportedProgram, list[int]]:
    """Return a program of calls that have nothing to do with each other, and the number of results of each."""
    graph = Graph()
    values = [used.meta["val"] for call in calls for used in call.all_input_nodes]
    inputs: list[Node] = []
    for position, value in enumerate(values):
        inputs.append(graph.placeholder(f"x{position}"))
        inputs[-1].meta["val"] = _another(value)
    results: list[Node] = []
    counts = []
    rest = iter(inputs)
    for call in calls:
        copies = {used: next(rest) for used in call.all_input_nodes}
        made = graph.node_copy(call, copies.__getitem__)
        before = len(results)
        if isinstance(call.meta["val"], torch.Tensor):
            results.append(made)
        else:
            for position, value in enumerate(call.meta["val"]):
                if not isinstance(value, torch.Tensor):
                    raise NotAlikeError(f"{call.target} returns a {type(value).__name__}")
                item = graph.call_function(operator.getitem, (made, position))
                item.meta["val"] = value
                results.append(item)
        counts.append(len(results) - before)
    graph.output(tuple(results))
    names = [
        SymIntArgument(node.name)
        if isinstance(node.meta["val"], torch.SymInt)
        else TensorArgument(node.name)
        for node in inputs
    ]
    outputs = [TensorArgument(node.name) for node in results]
    signature = ExportGraphSignature(
        [InputSpec(InputKind.USER_INPUT, name, None) for name in names],
        [OutputSpec(OutputKind.USER_OUTPUT, name, None) for name in outputs],
    )
    call_signature = ModuleCallSignature(
        inputs=[],  # their names are not those of the result's nodes where one is changed in place
        outputs=[],
        in_spec=pytree.tree_structure((tuple(values), {})),
        out_spec=pytree.tree_structure(tuple(results)),
        forward_arg_names=[node.name for node in inputs],
    )
    small = ExportedProgram(
        root=GraphModule({}, graph),
        graph=graph,
        graph_signature=signature,
        state_dict={},
        range_constraints=dict(program.range_constraints),
        module_call_graph=[ModuleCallEntry("", call_signature)],
        constants={},
        verifiers=program.verifiers,
    )
    return small, counts
