"""Says why an engine computes other numbers than PyTorch: which nodes are wrong, or that it is rounding."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

from trt_export.builders import RUNTIME_SETTINGS, OptimizedSession, ReferenceSession
from trt_export.compiling.onnx_model import OnnxPartition
from trt_export.compiling.verification.agreement import agree, as_array
from trt_export.compiling.verification.local import (
    Differences,
    NodeByNode,
    Session,
    exposable,
)
from trt_export.compiling.verification.nodes import is_quantization, jumps

WRONG = "its ONNX model computes other numbers than PyTorch"
WRONG_IF_OPTIMIZED = "ONNX Runtime optimizes it to other numbers than PyTorch's"


class NotTheModelError(Exception):
    """The engine computes what its ONNX model does not, so the model's values tell nothing of it."""


class Blame:
    """Compares a partition node by node, on any number of samples; sessions are opened once.

    `optimized` says that the engine is run by ONNX Runtime, as trt-runtime opens it.
    """

    def __init__(self, model: OnnxPartition, *, optimized: bool, widened: bool) -> None:
        self._model = model
        self._optimized = optimized
        self._widened = widened
        self._exposable = exposable(model)
        self._sessions: dict[tuple[frozenset[Node], int], Session] = {}

    def wrong_nodes(self, values: Mapping[Node, Any]) -> Differences:
        """Compare all nodes with PyTorch, each on its own: one run, one pass.

        Raises:
            Exception: ONNX Runtime's, and what PyTorch raises on values that only ONNX Runtime computes.
        """
        return self._compare(self._exposable, values, each=True)

    def wrong_optimizations(
        self, values: Mapping[Node, Any], outputs: Sequence[Any]
    ) -> Node | None:
        """Find a node that is wrong only because optimizations merge it with others; None if all is rounding.

        `outputs` are those of the engine. Takes as many sessions as halving the nodes takes steps.

        Raises:
            NotTheModelError: no session over the model gives these outputs.
        """
        settings = self._settings_of(values, outputs)
        if not self._optimized:
            return None
        # Exposing what jumps, and what it is computed from, keeps most of what is merged: int8 products are whole.
        between = set(self._model.subprogram.outputs)
        for node in filter(jumps, self._exposable):
            between.add(node)
            if not is_quantization(node):
                between |= set(node.all_input_nodes) & set(self._exposable)
        if not self._compare(between, values, each=False, settings=settings).nodes:
            return None
        nodes = list(self._exposable)
        low, high = 1, len(nodes)
        while low < high:
            middle = (low + high) // 2
            exposed = between | set(nodes[:middle])
            if self._compare(exposed, values, each=False, settings=settings).nodes:
                low = middle + 1
            else:
                high = middle
        return nodes[low - 1]

    def _settings_of(self, values: Mapping[Node, Any], outputs: Sequence[Any]) -> int:
        """Find out how trt-runtime opened the engine's session: so that its outputs come out."""
        inputs = [as_array(values[node]) for node in self._model.subprogram.inputs]
        for position in range(len(RUNTIME_SETTINGS) if self._optimized else 1):
            try:
                found = self._session((), position).run(inputs)
            except MemoryError:
                raise
            except Exception:  # ONNX Runtime cannot open some int8 models with some settings
                continue
            if all(
                agree(one, torch.from_numpy(other))
                for one, other in zip(found, outputs, strict=True)
            ):
                return position
        raise NotTheModelError

    def _compare(
        self,
        exposed: Collection[Node],
        values: Mapping[Node, Any],
        *,
        each: bool,
        settings: int = 0,
    ) -> Differences:
        session = self._session(exposed, settings)
        return NodeByNode(
            self._model, session, exposed, values, each=each, widened=self._widened
        ).differences()

    def _session(self, exposed: Collection[Node], settings: int) -> Session:
        key = frozenset(exposed), settings
        if key not in self._sessions:
            names = [name for node, name in self._exposable.items() if node in key[0]]
            file = self._model.file
            if len(self._sessions) > 2:
                self._sessions.popitem()  # each may have a copy of the weights; the first two are used again
            self._sessions[key] = (
                OptimizedSession(file, names, RUNTIME_SETTINGS[settings])
                if self._optimized
                else ReferenceSession(file, names, widened=self._widened)
            )
        return self._sessions[key]
