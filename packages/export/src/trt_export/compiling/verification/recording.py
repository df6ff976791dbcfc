"""Runs a decomposed program in PyTorch and keeps values of it; computes parts of it on other values."""

import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node

from trt_export.compiling.subprogram import Subprogram


def example_inputs(program: ExportedProgram) -> list[Any]:
    """Return the user inputs that the program was exported with, in the order of its placeholders.

    Raises:
        ValueError: the program has none.
    """
    if program.example_inputs is None:
        raise ValueError("the program has no example inputs")
    args, kwargs = program.example_inputs
    flat: list[Any] = list(program._get_flat_args_with_check(args, kwargs)[0])  # type: ignore[no-untyped-call]
    return flat


def record(
    program: ExportedProgram, user_inputs: Sequence[Any], kept: Collection[Node]
) -> dict[Node, Any]:
    """Run the program and return the values of the nodes `kept`, of its inputs, and of all sizes."""
    users = iter(user_inputs)
    tensors = {**program.state_dict, **program.constants}
    inputs = [
        next(users) if spec.kind is InputKind.USER_INPUT else tensors[spec.target]
        for spec in program.graph_signature.input_specs
    ]
    recorder = _Recorder(program, kept)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        recorder.run(*inputs)
    return recorder.recorded


class _Recorder(Interpreter):
    def __init__(self, program: ExportedProgram, kept: Collection[Node]) -> None:
        super().__init__(program.graph_module)
        self._kept = kept
        self.recorded: dict[Node, Any] = {}

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self._kept or n.op == "placeholder" or isinstance(value, (int, float, bool)):
            self.recorded[n] = value
        return value


class Evaluation:
    """Computes the nodes of a partition one by one in PyTorch; a caller may replace each value for those that use it.

    `values` are the partition's inputs and the sizes that it uses. With `widened`, bfloat16 is computed in float32.
    """

    def __init__(
        self, subprogram: Subprogram, values: Mapping[Node, Any], *, widened: bool = False
    ) -> None:
        self._subprogram = subprogram
        self._widened = widened
        specs = subprogram.program.graph_signature.input_specs
        weights = [spec.arg.name for spec in specs if spec.kind is not InputKind.USER_INPUT]
        self._weights = dict(zip(weights, subprogram.weights(), strict=True))
        self._outside = values
        self._computed: dict[Node, Any] = {}
        inside = set(subprogram.nodes)
        last_user: dict[Node, Node] = {}
        for node in subprogram.nodes:
            sources = node.all_input_nodes
            if node.target is operator.getitem:  # looked at together with what its list was made of
                sources = [*sources, *sources[0].all_input_nodes]
            last_user |= {used: node for used in sources if used in inside}
        self._unused_after: dict[Node, list[Node]] = {}
        for used, node in last_user.items():
            self._unused_after.setdefault(node, []).append(used)

    def run(self, replace: Callable[[Node, Any], Any]) -> None:
        """Compute all nodes in order; what `replace` returns for a node and its value is used in its stead."""
        with torch.no_grad():
            for node in self._subprogram.nodes:
                self._computed[node] = replace(node, self.compute(node))
                for used in self._unused_after.get(node, ()):
                    del self._computed[used]

    def compute(self, node: Node, change: Callable[[Any], Any] = lambda value: value) -> Any:
        """Compute one node from the present values of what it uses; `change` is applied to each of these."""
        arguments, options = torch.fx.map_arg(
            (node.args, node.kwargs), lambda used: change(self.value(used))
        )
        if self._widened:
            arguments, options = torch.utils._pytree.tree_map(_wide_dtype, (arguments, options))
        assert callable(node.target)
        return node.target(*arguments, **options)

    def value(self, node: Node) -> Any:
        """Return the present value of a node, of an input or of a weight."""
        if node in self._computed:
            return self._computed[node]
        value = self._weights[node.name] if node.name in self._weights else self._outside[node]
        if isinstance(value, torch.Tensor):
            value = value.detach().cpu()
            if self._widened and value.dtype is torch.bfloat16:
                value = value.float()
        return value


def _wide_dtype(value: Any) -> Any:
    return torch.float32 if value is torch.bfloat16 else value
