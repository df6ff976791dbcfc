"""Finds the partitions of a program that a builder takes, and makes their engines."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version

import torch
from torch.fx import Node

import trt_runtime
from trt_export.builders import Builder, BuildRequest, NodeRefusal, NodesRefused, Plan
from trt_export.compiling.bindings import bindings
from trt_export.compiling.bounds import DynamicBounds, how_to_bound
from trt_export.compiling.onnx_model import OnnxPartition, convert, first_failing, with_results
from trt_export.compiling.partition import device_of, partition
from trt_export.compiling.report import NOT_VERIFIED, Phase
from trt_export.compiling.splice import BuiltPartition
from trt_export.compiling.subprogram import CannotCut, Source
from trt_export.compiling.support import is_computation, reasons_against, values_of
from trt_export.compiling.torch_onnx import OPSET
from trt_export.compiling.verification import INT8_PRODUCTS, Candidate, Verifier
from trt_export.errors import BuildFailedError
from trt_export.upstream_errors import wrapped_errors

Nodes = tuple[Node, ...]
_LARGE = 32 << 20
"""Bytes of weights from which on an engine is verified without copies of them."""

_TakeOut = Callable[[Phase, Sequence[Nodes]], dict[Node, str]]


class EngineMaker:
    """Makes the engines of one program.

    Nodes that turn out not to be possible are taken out, with the reason, and the rest is partitioned again, until
    every partition is built. `reasons` holds the nodes that were taken out. Without a `verifier` nothing is compared
    with PyTorch.
    """

    def __init__(
        self,
        source: Source,
        builder: Builder,
        bounds: DynamicBounds,
        step: Callable[[Phase, int, int], None],
        verifier: Verifier | None,
    ) -> None:
        self._source = source
        self._builder = builder
        self._bounds = bounds
        self._step = step
        self._models: dict[Nodes, OnnxPartition] = {}
        self._passed: set[tuple[Phase, Nodes]] = set()
        self._plans: dict[Nodes, Plan] = {}
        self._verifier = verifier
        graph = source.program.graph
        self._free_sizes = {node for node in graph.nodes if source.is_free_size(node)}
        self.reasons: dict[Node, str] = reasons_against(graph.nodes, builder.refused_dtypes)
        for node in graph.nodes:
            if (
                is_computation(node)
                and node not in self.reasons
                and (reason := self._unbounded(node))
            ):
                self.reasons[node] = reason

    def make(self) -> list[BuiltPartition]:
        """Make the engines; an empty list if nothing is left to make one of.

        Raises:
            BuildFailedError: the builder failed in a way that is no single node's fault.
        """
        while True:
            self._step("partition", 0, 1)
            partitions = self._partitions()
            for phase, take_out in self._phases(partitions):
                if found := take_out(phase, partitions):
                    self.reasons |= found
                    break
            else:
                return [
                    self._engine(nodes, f"engine_{number}")
                    for number, nodes in enumerate(partitions)
                ]

    def _phases(self, partitions: Sequence[Nodes]) -> list[tuple[Phase, _TakeOut]]:
        """Return the phases in order: engines that ONNX Runtime runs are verified when built, others before."""
        onnx: tuple[Phase, _TakeOut] = ("onnx", self._each(self._convert))
        check: tuple[Phase, _TakeOut] = ("check", self._each(self._check))
        build: tuple[Phase, _TakeOut] = ("build", self._each(self._build))
        verify: tuple[Phase, _TakeOut] = ("verify", self._verify)
        checks = [check] if len(partitions) > 1 else []  # a build begins with the same check
        if self._verifier is None:
            return [onnx, *checks, build]
        if self._builder.runs_onnxruntime:
            return [onnx, *checks, build, verify]
        return [onnx, verify, *checks, build]

    def _each(self, step: Callable[[Nodes], dict[Node, str]]) -> _TakeOut:
        def take_out(phase: Phase, partitions: Sequence[Nodes]) -> dict[Node, str]:
            found: dict[Node, str] = {}
            for number, nodes in enumerate(partitions):
                self._step(phase, number, len(partitions))
                found |= step(nodes)
            return found

        return take_out

    def _partitions(self) -> list[Nodes]:
        nodes = list(self._source.program.graph.nodes)
        taken: dict[Node, None] = {}
        for node in nodes:
            is_part = (
                node.op == "call_function"
                and node.all_input_nodes[:1]
                and node.all_input_nodes[0] in taken
            )
            if is_computation(node) and node not in self.reasons and node.users:
                taken[node] = None
            elif (
                is_part
                and not is_computation(node)
                and isinstance(node.meta.get("val"), torch.Tensor)
            ):
                taken[node] = None  # a getitem goes with the operator that made its list
        return [tuple(group) for group in partition(nodes, taken, self._free_sizes)]

    def _unbounded(self, node: Node) -> str | None:
        for value in (
            *values_of(node),
            *(v for used in node.all_input_nodes for v in values_of(used)),
        ):
            for size in value.shape if isinstance(value, torch.Tensor) else ():
                if self._bounds.of(size) is None:
                    return (
                        f"the size {size} is known only when it runs and has no maximum: bound it in the model with "
                        f"torch._check(size <= ...), or here with {how_to_bound(str(size))}"
                    )
        return None

    def _convert(self, nodes: Nodes) -> dict[Node, str]:
        if nodes not in self._models:
            try:
                self._models[nodes] = convert(self._source, nodes)
            except CannotCut as error:
                return error.reasons
        return {}

    def _verify(self, phase: Phase, partitions: Sequence[Nodes]) -> dict[Node, str]:
        assert self._verifier is not None
        verifier = self._verifier
        findings = verifier.verify(
            [self._candidate(nodes) for nodes in partitions],
            lambda done, total: self._step(phase, done, total),
        )
        found = dict(findings.reasons)
        for nodes, refusals in findings.refusals.items():

            def ask(some: Nodes, whole: Nodes = nodes) -> Sequence[NodeRefusal]:
                if self._builder.runs_onnxruntime and self._refusals_of_build(some):
                    return []  # another matter
                fails = verifier.still_fails(whole, self._candidate(some))
                return findings.refusals[whole] if fails else []

            found |= self._blame(nodes, refusals, ask)
        return found

    def _candidate(self, nodes: Nodes) -> Candidate:
        is_run = self._builder.runs_onnxruntime
        model = self._models[nodes]
        # ONNX Runtime would copy all weights of products. For int8 it has other kernels if it may not.
        prepack = model.file.weights_size < _LARGE or bool(model.file.operators & INT8_PRODUCTS)
        engine = (
            self._make(nodes, "verified", self._plans[nodes], prepack=prepack) if is_run else None
        )
        return Candidate(model, engine)

    def _check(self, nodes: Nodes) -> dict[Node, str]:
        return self._take_out(nodes, "check", self._refusals_of_check)

    def _build(self, nodes: Nodes) -> dict[Node, str]:
        return self._take_out(nodes, "build", self._refusals_of_build)

    def _refusals_of_check(self, nodes: Nodes) -> Sequence[NodeRefusal]:
        with self._builder_errors():
            return self._builder.check(self._request(nodes))

    def _builder_errors(self) -> AbstractContextManager[None]:
        """A builder of somebody else's may raise anything."""
        return wrapped_errors(
            BuildFailedError,
            f"builder {self._builder.name!r}",
            "it is the builder's own error (`__cause__`), not the program's: a builder refuses nodes with NodesRefused",
        )

    def _refusals_of_build(self, nodes: Nodes) -> Sequence[NodeRefusal]:
        with self._builder_errors():
            try:
                self._plans[nodes] = self._builder.build(self._request(nodes))
            except NodesRefused as refused:
                return refused.refusals
        return []

    def _take_out(
        self, nodes: Nodes, phase: Phase, ask: Callable[[Nodes], Sequence[NodeRefusal]]
    ) -> dict[Node, str]:
        """Ask about a partition, once, and return the nodes to take out of it."""
        if (phase, nodes) in self._passed:
            return {}
        if refusals := ask(nodes):
            return self._blame(nodes, refusals, ask)
        self._passed.add((phase, nodes))
        return {}

    def _blame(
        self,
        nodes: Nodes,
        refusals: Sequence[NodeRefusal],
        ask: Callable[[Nodes], Sequence[NodeRefusal]],
    ) -> dict[Node, str]:
        """Find the nodes behind refusals of ONNX nodes; by halving, and asking again, if the builder names none.

        Raises:
            BuildFailedError: first and last node are refused each on its own, so it is no single node's fault.
        """
        origins = self._models[nodes].origins
        found = {
            origins[refusal.onnx_node]: refusal.reason
            for refusal in refusals
            if refusal.onnx_node in origins and origins[refusal.onnx_node] in nodes
        }
        if found:
            return found

        def refuses(some: Nodes) -> bool:
            return not self._convert(some) and bool(ask(some))

        first = first_failing(nodes, refuses)
        operators = [node for node in nodes if is_computation(node)]
        if first is operators[0] is not operators[-1] and refuses(
            with_results(nodes, operators[-1:])
        ):
            raise BuildFailedError(
                f"builder {self._builder.name} takes nothing: {refusals[0].reason}"
            )
        return {first: refusals[0].reason}

    def _request(self, nodes: Nodes) -> BuildRequest:
        model = self._models[nodes]
        inputs, outputs = bindings(model, self._bounds)
        return BuildRequest(f"{nodes[0].name}_to_{nodes[-1].name}", model.file, inputs, outputs)

    def _engine(self, nodes: Nodes, name: str) -> BuiltPartition:
        engine = self._make(nodes, name, self._plans.pop(nodes))
        verification = NOT_VERIFIED if self._verifier is None else self._verifier.of_engine(nodes)
        return BuiltPartition(self._models.pop(nodes).subprogram, engine, verification)

    def _make(
        self, nodes: Nodes, name: str, plan: Plan, *, prepack: bool = True
    ) -> trt_runtime.Engine:
        inputs, outputs = bindings(self._models[nodes], self._bounds)
        record = {
            "name": name,
            "device": self._builder.device(device_of(nodes[0])),
            "inputs": [binding.fields() for binding in inputs],
            "outputs": [
                {key: vars(binding)[key] for key in ("name", "dtype", "shape")}
                for binding in outputs
            ],
            "provenance": self._provenance(),
            **({} if prepack else {"prepack": False}),
        }
        return trt_runtime.Engine.from_plan(plan, record)

    def _provenance(self) -> Mapping[str, object]:
        return {
            **self._builder.provenance(),
            "opset": OPSET,
            "torch": str(torch.__version__),
            "trt_export": version("trt-export"),
        }
