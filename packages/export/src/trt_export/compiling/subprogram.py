"""Cuts a partition out of a program, as a program of its own that torch.onnx can translate."""

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node

from trt_export.compiling.complex_borders import across_border
from trt_export.compiling.support import is_metadata_check
from trt_export.engines.shapes import (
    Inexpressible,
    InputDimensions,
    build,
    parse_dimension,
    size_of,
)

_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "min": torch.sym_min,
    "max": torch.sym_max,
}


class CannotCut(Exception):  # noqa: N818  (an answer to `compile`, which keeps the nodes in PyTorch)
    """These nodes cannot be in an engine, each with its reason."""

    def __init__(self, reasons: Mapping[Node, str]) -> None:
        super().__init__("; ".join(reasons.values()))
        self.reasons = dict(reasons)


@dataclass
class Source:
    """The program that partitions are cut out of, and what is known of its placeholders.

    `weights` are the placeholders whose tensors never change (parameters, constants, buffers that are not mutated):
    they go into the partition, everything else becomes an input of it. `shape_sources` gives, for each symbol, a user
    input whose shape tells it.
    """

    program: ExportedProgram
    weights: dict[Node, InputSpec]
    shape_sources: dict[sympy.Symbol, Node]

    @classmethod
    def of(cls, program: ExportedProgram) -> "Source":
        """Sort the placeholders of a decomposed program."""
        signature = program.graph_signature
        mutated = set(signature.buffers_to_mutate.values()) | set(
            signature.parameters_to_mutate.values()
        )
        specs = {spec.arg.name: spec for spec in signature.input_specs if hasattr(spec.arg, "name")}
        weights: dict[Node, InputSpec] = {}
        shape_sources: dict[sympy.Symbol, Node] = {}
        for node in program.graph.find_nodes(op="placeholder"):
            spec = specs[node.name]
            if spec.kind is InputKind.USER_INPUT:
                value = node.meta.get("val")
                for size in value.shape if isinstance(value, torch.Tensor) else ():
                    if isinstance(expression := size_of(size), sympy.Symbol):
                        shape_sources.setdefault(expression, node)
            elif isinstance(spec.arg, TensorArgument) and spec.target not in mutated:
                weights[node] = spec
        return cls(program, weights, shape_sources)

    def is_free_size(self, node: Node) -> bool:
        """Whether the node is a size that the shapes of the user inputs tell."""
        value = node.meta.get("val")
        return isinstance(value, torch.SymInt) and all(
            symbol in self.shape_sources for symbol in size_of(value).free_symbols
        )


@dataclass
class Subprogram:
    """A partition as a program: positional tensor inputs and outputs, weights of its own.

    `inputs` and `outputs` are nodes of the program that it was cut out of, in the order of the sub-program's user
    inputs and outputs; `origins` maps names of nodes inside to the nodes outside that they were copied from.
    """

    nodes: tuple[Node, ...]
    program: ExportedProgram
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    dimensions: InputDimensions
    origins: dict[str, Node]

    def weights(self) -> list[torch.Tensor]:
        """Return the tensors of the placeholders before the inputs."""
        tensors = {**self.program.state_dict, **self.program.constants}
        specs = self.program.graph_signature.input_specs
        return [tensors[spec.target] for spec in specs if spec.kind is not InputKind.USER_INPUT]


def cut_out(
    source: Source, nodes: Sequence[Node], casts: frozenset[Node] = frozenset()
) -> Subprogram:
    """Copy `nodes` (in graph order) into a program of their own; nothing outside changes.

    Raises:
        CannotCut: a size that the partition needs or returns does not follow from the shapes of its inputs, or
            complex numbers would cross its border.
    """
    if reasons := across_border(nodes, source.weights):
        raise CannotCut(reasons)
    inside = set(nodes)
    outputs = tuple(
        node
        for node in nodes
        if any(user not in inside and not is_metadata_check(user) for user in node.users)
    )
    inputs = _inputs(source, nodes, inside, outputs)
    dimensions = InputDimensions([node.meta["val"] for node in inputs])
    _require_known_shapes(nodes, outputs, dimensions)

    graph = Graph()
    copies: dict[Node, Node] = {}
    weights = [node for node in source.weights if any(user in inside for user in node.users)]
    for node in (*weights, *inputs):
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    sizes = SizeNodes(graph, [copies[node] for node in inputs])
    origins: dict[str, Node] = {}

    def argument(node: Node) -> Node | int:
        if node in copies:
            return copies[node]
        return build(dimensions.solve(size_of(node.meta["val"])), sizes)

    for node in nodes:
        try:
            arguments = torch.fx.map_arg((node.args, node.kwargs), argument)
        except Inexpressible as error:
            raise CannotCut({node: str(error)}) from error
        copy = graph.create_node(node.op, node.target, *arguments, name=node.name)
        copy.meta = dict(node.meta)
        origins[copy.name] = node
        copies[node] = copy
    graph.output(tuple(copies[node] for node in outputs))

    specs = [source.weights[node] for node in weights]
    signature = ExportGraphSignature(
        [
            InputSpec(spec.kind, TensorArgument(copies[node].name), spec.target, spec.persistent)
            for node, spec in zip(weights, specs, strict=True)
        ]
        + [
            InputSpec(InputKind.USER_INPUT, TensorArgument(copies[node].name), None)
            for node in inputs
        ],
        [
            OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(copies[node].name), None)
            for node in outputs
        ],
    )
    program = _as_program(source.program, graph, signature)
    return Subprogram(tuple(nodes), program, inputs, outputs, dimensions, origins)


def _inputs(
    source: Source, nodes: Sequence[Node], inside: set[Node], outputs: Sequence[Node]
) -> tuple[Node, ...]:
    """Find the tensors that come from outside, and the user inputs whose shapes the partition needs besides."""
    found: dict[Node, None] = {}
    sizes: dict[sympy.Expr, None] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if isinstance(used.meta["val"], torch.SymInt):
                sizes[size_of(used.meta["val"])] = None
            elif used not in inside and used not in source.weights:
                found[used] = None
    for node in outputs:
        sizes |= dict.fromkeys(map(size_of, node.meta["val"].shape))
    known = InputDimensions([node.meta["val"] for node in found])
    for size in sizes:
        try:
            known.text(size)
        except Inexpressible:
            for symbol in sorted(size.free_symbols, key=str):
                if symbol in source.shape_sources:
                    found[source.shape_sources[symbol]] = None
    if not found:
        raise CannotCut(
            dict.fromkeys(
                nodes, "it computes from constants alone, so an engine of it has no input"
            )
        )
    return tuple(found)


def _require_known_shapes(
    nodes: Sequence[Node], outputs: Sequence[Node], dimensions: InputDimensions
) -> None:
    """Refuse the node at which sizes begin that the inputs do not tell, if such a size gets out of the partition."""
    if all(_unknown_size(node, dimensions) is None for node in outputs):
        return
    node, reason = next(
        (node, reason) for node in nodes if (reason := _unknown_size(node, dimensions)) is not None
    )
    raise CannotCut({node: f"the shape of its result is not known beforehand: {reason}"})


def _unknown_size(node: Node, dimensions: InputDimensions) -> str | None:
    value = node.meta["val"]
    try:
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(tensor, torch.Tensor):
                dimensions.shape(tensor)
    except Inexpressible as error:
        return str(error)
    return None


class SizeNodes:
    """Builds sizes as nodes at the end of a graph, from the shapes of its nodes `inputs`: an `Algebra`."""

    def __init__(self, graph: Graph, inputs: Sequence[Node]) -> None:
        self._graph = graph
        self._inputs = inputs
        self._sizes: dict[sympy.Symbol, Node] = {}

    def integer(self, value: int) -> Node | int:
        """Return the constant."""
        return value

    def dimension(self, symbol: sympy.Symbol) -> Node | int:
        """Return a node that reads the dimension, one for each."""
        if symbol not in self._sizes:
            position, dimension = parse_dimension(symbol)
            node = self._inputs[position]
            self._sizes[symbol] = self._call(torch.ops.aten.sym_size.int, node, dimension)
        return self._sizes[symbol]

    def apply(self, name: str, left: Node | int, right: Node | int) -> Node | int:
        """Return a node that applies the operator."""
        return self._call(_OPERATORS[name], left, right)

    def _call(self, target: Callable[..., Any], *arguments: Node | int) -> Node:
        node = self._graph.call_function(target, arguments)
        node.meta["val"] = target(*(a.meta["val"] if isinstance(a, Node) else a for a in arguments))
        return node


def _as_program(
    whole: ExportedProgram, graph: Graph, signature: ExportGraphSignature
) -> ExportedProgram:
    """Wrap a graph as a program that shares the tensors of `whole`."""
    targets = {spec.target for spec in signature.input_specs}
    symbols = {
        symbol
        for node in graph.nodes
        for value in (node.meta.get("val"),)
        if isinstance(value, torch.Tensor)
        for size in value.shape
        for symbol in size_of(size).free_symbols
    }
    return ExportedProgram(
        root=GraphModule({}, graph),
        graph=graph,
        graph_signature=signature,
        state_dict={name: tensor for name, tensor in whole.state_dict.items() if name in targets},
        range_constraints={
            key: value for key, value in whole.range_constraints.items() if key in symbols
        },
        module_call_graph=[],
        constants={name: value for name, value in whole.constants.items() if name in targets},
        verifiers=whole.verifiers,
    )
