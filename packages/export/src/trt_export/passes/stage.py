"""A copy of a program to edit: its own graph and signature, the source's weights.

`copy.deepcopy(program)` would copy weights and engines, and copying a graph renames nodes that shadow builtins
(`sum` becomes `sum_1`), after which the signature names nodes that are not there.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TokenArgument,
)
from torch.fx import Graph, GraphModule, Node

from trt_export.initial_state import restore_initial_values
from trt_export.passes.layout import contiguous, make_contiguous


class Stage:
    """An editable copy of `source`, with the initial values of its state.

    `copies` maps the source's nodes to their copies.
    """

    def __init__(self, source: ExportedProgram) -> None:
        self._source = source
        self.graph = Graph()
        self.copies: dict[Node, Node] = {}
        output = self.graph.graph_copy(source.graph, self.copies)
        source_output = source.graph.output_node()
        if output is not None:
            self.copies[source_output] = self.graph.output(output)
            self.copies[source_output].meta = copy.copy(source_output.meta)
        for original, node in self.copies.items():
            node.name = original.name
        self._input_specs = list(source.graph_signature.input_specs)
        self._output_specs = list(source.graph_signature.output_specs)
        self._detach_buffers()
        self._state_dict: dict[str, Any] = dict(source.state_dict)
        self._constants: dict[str, Any] = dict(source.constants)
        restore_initial_values(self._state_dict, self._constants)

    def remove(self, node: Node) -> None:
        """Remove a node that nothing uses, with what the program keeps for it."""
        self.graph.erase_node(node)
        for spec in [spec for spec in self._input_specs if spec.arg.name == node.name]:
            self._input_specs.remove(spec)
            if spec.kind is InputKind.CUSTOM_OBJ and not any(
                other.target == spec.target for other in self._input_specs
            ):
                self._constants.pop(str(spec.target), None)

    def replace(self, node: Node, by: Node) -> None:
        """Put one node in the place of another, also for those who look for the copy of a source's node."""
        node.replace_all_uses_with(by)
        self.remove(node)
        for original in [original for original, copied in self.copies.items() if copied is node]:
            self.copies[original] = by

    def make_contiguous(self) -> None:
        """Give every input, weight and buffer contiguous memory; edits the graph and copies tensors.

        Raises:
            LoweringError: a node reads memory by its strides.
        """
        tensors = {spec.target: spec.arg.name for spec in self._input_specs if spec.target}
        make_contiguous(self.graph)
        for place in (self._state_dict, self._constants):
            for name, value in place.items():
                if name in tensors and isinstance(value, torch.Tensor):
                    place[name] = contiguous(value)

    def drop_idle_tokens(self) -> None:
        """Remove tokens that come in and go out again: what they kept in order is gone.

        A token that something else still takes stays, and goes out under the name of whoever gave it last.
        """
        output = self.graph.output_node()
        (results,) = output.args
        assert isinstance(results, Sequence)
        inputs = {spec.arg.name for spec in self._input_specs if spec.kind is InputKind.TOKEN}
        kept: list[tuple[Any, OutputSpec]] = []
        idle: list[Node] = []
        for result, spec in zip(results, self._output_specs, strict=True):
            if spec.kind is OutputKind.TOKEN and isinstance(result, Node):
                if result.name in inputs and list(result.users) == [output]:
                    idle.append(result)
                    continue
                spec = OutputSpec(spec.kind, TokenArgument(result.name), spec.target)
            kept.append((result, spec))
        output.args = (tuple(result for result, _ in kept),)
        self._output_specs = [spec for _, spec in kept]
        for token in idle:
            self.remove(token)

    def finish(self) -> ExportedProgram:
        """The edited program."""
        self.graph.lint()
        source = self._source
        return ExportedProgram(
            root=GraphModule(source.graph_module, self.graph),
            graph=self.graph,
            graph_signature=ExportGraphSignature(self._input_specs, self._output_specs),
            state_dict=self._state_dict,
            range_constraints=dict(source.range_constraints),
            module_call_graph=[copy.copy(entry) for entry in source.module_call_graph],
            example_inputs=source.example_inputs,
            constants=self._constants,
            verifiers=source.verifiers,
        )

    def _detach_buffers(self) -> None:
        """Take gradients from the shapes of buffers.

        torch.export gives them to a buffer that is mutated with what was computed from weights, and ExecuTorch
        then cannot write the buffer back ("a leaf Variable that requires grad").
        """
        buffers = {spec.arg.name for spec in self._input_specs if spec.kind is InputKind.BUFFER}
        for node in self.graph.find_nodes(op="placeholder"):
            value = node.meta.get("val")
            if node.name in buffers and isinstance(value, torch.Tensor) and value.requires_grad:
                node.meta["val"] = value.detach()
