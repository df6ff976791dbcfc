"""Copies a graph node by node, with templates for nodes that become something else, and without changes in place.

What an operator changes in place gets a new value, and whoever uses it later uses that. This is right as long as nobody
uses memory that the changed tensor shares with another one: where somebody does, the copy is given up.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Graph, Node

from trt_export.compiling.decomposition.templates import NotAlikeError, Template
from trt_export.compiling.subprogram import SizeNodes
from trt_export.compiling.support import values_of
from trt_export.engines.shapes import Inexpressible, InputDimensions, build, is_dynamic, size_of

Copied = Node | tuple[Node, ...]


class FunctionalCopy:
    """A copy of `source`. `user_inputs` are the placeholders whose shapes tell sizes.

    Raises:
        NotAlikeError: the graph cannot be copied so.
    """

    def __init__(
        self, source: Graph, templates: Mapping[Node, Template], user_inputs: Sequence[Node]
    ) -> None:
        self.graph = Graph()
        self._templates = templates
        self._copies: dict[Node, Copied] = {}
        self._memory: dict[Node, Node] = {}
        """Of each node of the copy, the node whose memory it shares, or itself."""
        self._sizes: dict[Any, Node] = {}
        self._last_use = _last_uses(source)
        self._order = {node: position for position, node in enumerate(source.nodes)}
        self._placeholders: dict[Node, Node] = {}
        for node in source.find_nodes(op="placeholder"):
            copy = self.graph.placeholder(node.name)
            copy.name = copy.target = node.name  # also where it is the name of a function of Python
            copy.meta = dict(node.meta)
            self._add(node, copy)
            self._placeholders[node] = copy
        tensors = [node for node in user_inputs if isinstance(node.meta["val"], torch.Tensor)]
        self._dimensions = InputDimensions([node.meta["val"] for node in tensors])
        self._size_nodes = SizeNodes(self.graph, [self._placeholders[node] for node in tensors])
        for node in source.nodes:
            if node.op == "call_function":
                self._copy(node)
            elif node.op not in ("placeholder", "output"):
                raise NotAlikeError(f"it has a node of kind {node.op}")

    def of(self, node: Node) -> Node:
        """Return the copy of a node: the last value of what was changed in place."""
        copy = self._copies[node]
        if not isinstance(copy, Node):
            raise NotAlikeError(f"the list that {node} returns is used as a whole")
        return copy

    def changed(self) -> dict[Node, Node]:
        """Return the placeholders of the source that are changed in place, with their last values."""
        return {
            node: self.of(node)
            for node, copy in self._placeholders.items()
            if self._copies[node] is not copy
        }

    def _copy(self, node: Node) -> None:
        source = node.all_input_nodes[0] if node.target is operator.getitem else None
        if source is not None and isinstance(made := self._copies[source], tuple):
            self._copies[node] = made[node.args[1]]  # type: ignore[index]
        elif (template := self._templates.get(node)) is not None:
            self._put(node, template)
        else:
            if isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
                raise NotAlikeError(f"{node} changes its argument in place")
            copy = self.graph.node_copy(node, self.of)
            self._add(node, copy)
            if isinstance(copy.meta.get("val"), torch.SymInt):
                self._sizes.setdefault(size_of(copy.meta["val"]), copy)

    def _add(self, node: Node, copy: Node) -> None:
        self._copies[node] = copy
        self._memory[copy] = self._memory_of(copy)

    def _memory_of(self, copy: Node) -> Node:
        """Return whose memory the node's value may share: as the schema says, or that of the list it comes from."""
        if copy.target is operator.getitem:
            return self._memory[copy.all_input_nodes[0]]
        if not isinstance(copy.target, OpOverload):
            return copy
        schema = copy.target._schema
        if not any(returned.alias_info is not None for returned in schema.returns):
            return copy
        shared = [
            value
            for position, argument in enumerate(schema.arguments)
            if argument.alias_info is not None
            for value in (
                copy.args[position]
                if position < len(copy.args)
                else copy.kwargs.get(argument.name),
            )
        ]
        if len(shared) != 1 or not isinstance(shared[0], Node):
            raise NotAlikeError(f"{copy.target} may share the memory of several tensors")
        return self._memory[shared[0]]

    def _put(self, node: Node, template: Template) -> None:
        """Copy the nodes of a template in place of a node."""
        known: dict[Node, Node] = {
            inner: self.of(outer)
            for inner, outer in zip(template.inputs, node.all_input_nodes, strict=True)
        }

        def argument(inner: Node) -> Node | int:
            if isinstance(inner.meta.get("val"), torch.SymInt):
                return self._size(size_of(inner.meta["val"]))
            return known[inner]

        for inner in template.nodes:
            arguments, options = torch.fx.map_arg((inner.args, inner.kwargs), argument)
            copy = self.graph.create_node(inner.op, inner.target, arguments, options)
            copy.meta = {**node.meta, "val": inner.meta["val"]}
            known[inner] = copy
            self._memory[copy] = self._memory_of(copy)
        results = tuple(known[inner] for inner in template.results)
        for made, expected in zip(results, values_of(node), strict=True):
            _require_same(node, made.meta["val"], expected)
        for position, inner in template.mutated.items():
            self._change(node, node.all_input_nodes[position], known[inner])
        # What an operator returns after a change in place is what it changed.
        self._copies[node] = results[0] if isinstance(node.meta["val"], torch.Tensor) else results

    def _change(self, node: Node, changed: Node, new: Node) -> None:
        """Let `new` be the value of `changed` from now on, and of all that is the same tensor."""
        old = self.of(changed)
        _require_same(node, new.meta["val"], changed.meta["val"])
        memory = self._memory[old]
        for other, copies in self._copies.items():
            for copy in copies if isinstance(copies, tuple) else (copies,):
                is_seen = (
                    self._last_use.get(other, -1) > self._order[node] or other.op == "placeholder"
                )
                if copy is not old and self._memory[copy] is memory and is_seen:
                    raise NotAlikeError(f"{node} changes memory that {other} shares with {changed}")
        for other, copies in self._copies.items():
            if copies is old:
                self._copies[other] = new
            elif isinstance(copies, tuple) and old in copies:
                self._copies[other] = tuple(new if copy is old else copy for copy in copies)

    def _size(self, size: Any) -> Node | int:
        if size not in self._sizes:
            try:
                made = build(self._dimensions.solve(size), self._size_nodes)
            except Inexpressible as error:
                raise NotAlikeError(str(error)) from error
            if not isinstance(made, Node):
                return made
            self._sizes[size] = made
        return self._sizes[size]


def _require_same(node: Node, found: Any, expected: Any) -> None:
    """A node that is copied as it is expects what it was exported with."""
    if not isinstance(found, torch.Tensor) or not isinstance(expected, torch.Tensor):
        raise NotAlikeError(f"{node} returns a {type(expected).__name__}")
    one, other = (
        (value.dtype, value.device, *map(size_of, value.shape), *map(_example, value.stride()))
        for value in (found, expected)
    )
    if one != other:
        raise NotAlikeError(f"{node} becomes {one}, and was {other}")


def _example(size: int | torch.SymInt) -> int | None:
    """Return the size at the example inputs: strides may be written in several ways."""
    return size.node.hint if is_dynamic(size) else int(size)


def _last_uses(graph: Graph) -> dict[Node, int]:
    """Return the positions of the last users."""
    found: dict[Node, int] = {}
    for position, node in enumerate(graph.nodes):
        found |= dict.fromkeys(node.all_input_nodes, position)
    return found


def computations(nodes: Iterable[Node]) -> list[Node]:
    """Return the calls of operators that return tensors."""
    return [
        node
        for node in nodes
        if isinstance(node.target, OpOverload)
        and any(isinstance(value, torch.Tensor) for value in values_of(node))
    ]
