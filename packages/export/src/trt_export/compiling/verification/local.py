"""Compares a partition node by node: PyTorch computes each node on what ONNX Runtime made of the nodes before it.

So a difference belongs to the node where it is seen, whatever became of it later: rounding that turns into another
index, or another integer, is no difference there, and a wrong formula is, though its results are small. It takes one
run of a session that returns the values inside, and one pass of PyTorch.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import Node

from trt_export.builders import OptimizedSession, ReferenceSession
from trt_export.compiling.onnx_model import OnnxPartition
from trt_export.compiling.support import owner
from trt_export.compiling.verification.agreement import (
    as_array,
    as_real,
    as_tensor,
    differing,
)
from trt_export.compiling.verification.nodes import (
    has_own_rounding,
    is_quantization,
    same_up_to_order_of_ties,
    undefined,
)
from trt_export.compiling.verification.noise import noisy
from trt_export.compiling.verification.recording import Evaluation
from trt_export.engines.shapes import is_dynamic

Session = OptimizedSession | ReferenceSession

_MOST_BYTES = 256 * 2**20  # of values that a session returns at once
_SAMPLES_OF_NOISE = 6
_OF_NOISE = 8.0  # a difference this many times what noise makes is still rounding


def exposable(model: OnnxPartition) -> dict[Node, str]:
    """Return the names that the values of nodes have in the ONNX model, for those that are in it."""
    made = model.file.inner_values
    subprogram = model.subprogram
    names = {
        node: name
        for name, node in subprogram.origins.items()
        if name in made and isinstance(node.meta.get("val"), torch.Tensor)
    }
    names |= {node: f"out_{position}" for position, node in enumerate(subprogram.outputs)}
    return {node: names[node] for node in subprogram.nodes if node in names}


@dataclass
class Differences:
    """The nodes that ONNX Runtime computes otherwise, and notes for the report."""

    nodes: list[Node] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class NodeByNode:
    """One comparison of a partition on the values of one sample.

    `exposed` are the nodes whose values the session returns; PyTorch goes on with these. What lies between two of them
    is compared as one. `each` says that all nodes are exposed, so that a node's operands are known exactly.
    """

    def __init__(
        self,
        model: OnnxPartition,
        session: Session,
        exposed: Collection[Node],
        values: Mapping[Node, Any],
        *,
        each: bool,
        widened: bool = False,
    ) -> None:
        names = exposable(model)
        self._subprogram = model.subprogram
        self._values = values
        self._widened = widened
        self._each = each
        self._fetch = _Fetcher(
            session,
            [self._array(node) for node in model.subprogram.inputs],
            {node: name for node, name in names.items() if node in exposed},
        )
        self._evaluation = Evaluation(model.subprogram, values, widened=widened)
        self._found = Differences()
        self._has_nan = False
        self._unseen: set[Node] = set()

    def differences(self) -> Differences:
        """Run it once; a second time with noise if, between nodes, something differs."""
        self._evaluation.run(self._judged)
        if self._found.nodes and not self._each:
            self._found.nodes = self._beyond_noise(self._found.nodes)
        return self._found

    def _array(self, node: Node) -> Any:
        value = self._values[node]
        return as_array(value.float() if value.dtype is torch.bfloat16 else value)

    def _judged(self, node: Node, value: Any) -> Any:
        found = self._fetch(node)
        if found is None or not isinstance(value, torch.Tensor):
            if not self._is_identity(node, value):
                self._unseen.add(owner(node))
            return value
        expected = as_real(value)
        tensor = as_tensor(found, expected)
        if tensor is None:  # what has the node's name is another value, unless it is an output
            if node in self._subprogram.outputs:
                self._found.nodes.append(node)
            return value
        wrong = differing(tensor, expected)
        if wrong.any():
            wrong &= ~undefined(node, self._evaluation, expected)
            wrong = self._without_lost_nan(node, wrong, tensor, expected)
        if wrong.any() and not self._is_explained(node, tensor, expected):
            self._found.nodes.append(self._first_unseen(node) if self._each else node)
        self._has_nan |= tensor.is_floating_point() and bool(tensor.isnan().any())
        return torch.view_as_complex(tensor) if value.is_complex() else tensor

    def _is_identity(self, node: Node, value: Any) -> bool:
        """Whether the node gives what it was given: it is in no model, and not wrong."""
        operands = [self._evaluation.value(used) for used in _operands(node)[:1]]
        return any(
            isinstance(value, torch.Tensor)
            and value.shape == operand.shape
            and torch.equal(value, operand)
            for operand in operands
            if isinstance(operand, torch.Tensor)
        )

    def _first_unseen(self, node: Node) -> Node:
        """Return where the nodes begin whose values are not in the model: a wrong one may be dropped from it."""
        while unseen := [owner(used) for used in _operands(node) if owner(used) in self._unseen]:
            node = unseen[0]
        return node

    def _without_lost_nan(
        self, node: Node, wrong: torch.Tensor, found: torch.Tensor, expected: torch.Tensor
    ) -> torch.Tensor:
        """Pass over a NaN of an operand that ONNX's operator drops: docs/numerics.md lists these."""
        if not expected.is_floating_point():
            return wrong
        lost = expected.isnan() & ~found.isnan()
        operands = [self._evaluation.value(used) for used in _operands(node)] if self._each else []
        if lost.any() and (
            any(_has_nan(value) for value in operands) or (not self._each and self._has_nan)
        ):
            note = f"{node.target}: drops NaN"
            if note not in self._found.notes:
                self._found.notes.append(note)
            return wrong & ~lost
        return wrong

    def _is_explained(self, node: Node, found: torch.Tensor, expected: torch.Tensor) -> bool:
        if same_up_to_order_of_ties(node, self._evaluation, found, expected):
            return True
        if not self._each:
            return False  # `_beyond_noise` looks at it later
        if not has_own_rounding(node) and all(map(self._is_exact, _operands(node))):
            return False
        spread = torch.zeros_like(expected, dtype=torch.float64)
        for seed in range(_SAMPLES_OF_NOISE):
            changed = self._compute_with_noise(node, seed)
            spread = torch.maximum(spread, _distance(changed, expected))
        return not differing(found, expected, _OF_NOISE * spread).any()

    def _is_exact(self, node: Node) -> bool:
        """Whether PyTorch computes with the very value that ONNX Runtime has."""
        return node not in self._subprogram.nodes or self._fetch.has(node)

    def _compute_with_noise(self, node: Node, seed: int) -> torch.Tensor:
        result: Any
        if node.target is operator.getitem:
            result = self._evaluation.compute(node.all_input_nodes[0], lambda v: noisy(v, seed))
            result = result[node.args[1]]
        else:
            result = self._evaluation.compute(node, lambda v: noisy(v, seed))
        assert isinstance(result, torch.Tensor)
        return as_real(result)

    def _beyond_noise(self, nodes: Sequence[Node]) -> list[Node]:
        """Return those that differ by more than noise on all values that were exposed would make of them."""
        found: dict[Node, torch.Tensor] = {}
        expected: dict[Node, torch.Tensor] = {}
        spread: dict[Node, torch.Tensor] = {}

        def note(node: Node, value: Any, seed: int) -> Any:
            array = self._fetch(node)
            tensor = None if array is None else as_tensor(array, as_real(value))
            if tensor is None:
                return value
            is_complex, value = value.is_complex(), as_real(value)
            if node in nodes and node not in expected:
                found[node], expected[node] = tensor, value
                step = 1.0 if is_quantization(node) else 0.0
                spread[node] = torch.full_like(value, step / _OF_NOISE, dtype=torch.float64)
            elif node in nodes:
                spread[node] = torch.maximum(spread[node], _distance(value, expected[node]))
            tensor = tensor if seed < 0 else noisy(tensor, seed)
            return torch.view_as_complex(tensor) if is_complex else tensor

        for seed in range(-1, _SAMPLES_OF_NOISE // 2):
            values = {
                node: value if seed < 0 else noisy(value, seed)
                for node, value in self._values.items()
            }
            self._fetch.restart()
            evaluation = Evaluation(self._subprogram, values, widened=self._widened)
            evaluation.run(lambda node, value, seed=seed: note(node, value, seed))  # type: ignore[misc]
        return [
            node
            for node in nodes
            if node not in found
            or differing(found[node], expected[node], _OF_NOISE * spread[node]).any()
        ]


class _Fetcher:
    """Gets values from a session, in the order of the nodes, no more than `_MOST_BYTES` at once."""

    def __init__(self, session: Session, inputs: Sequence[Any], names: Mapping[Node, str]) -> None:
        self._session = session
        self._inputs = inputs
        self._names = names
        self._windows = _windows(list(names))
        self.restart()

    def restart(self) -> None:
        """Begin with the first node again."""
        self._next = 0
        self._fetched: dict[Node, Any] = {}

    def has(self, node: Node) -> bool:
        """Whether the session returns the node's value."""
        return node in self._names

    def __call__(self, node: Node) -> Any:
        """Return the node's value, once; None if the session does not return it."""
        if node not in self._names:
            return None
        while node not in self._fetched:
            window = self._windows[self._next]
            self._next += 1
            found = self._session.run(self._inputs, [self._names[each] for each in window])
            self._fetched.update(zip(window, found, strict=True))
        return self._fetched.pop(node)


def _windows(nodes: Sequence[Node]) -> list[list[Node]]:
    windows: list[list[Node]] = []
    room = 0
    for node in nodes:
        size = _bytes(node.meta["val"])
        if not windows or size > room:
            windows.append([])
            room = _MOST_BYTES
        windows[-1].append(node)
        room -= size
    return windows


def _bytes(value: torch.Tensor) -> int:
    total = value.element_size()
    for size in value.shape:
        hint = size.node.hint if is_dynamic(size) else int(size)
        total *= 1 if hint is None else int(hint)
    return total


def _operands(node: Node) -> list[Node]:
    source = node.all_input_nodes[0] if node.target is operator.getitem else node
    return [
        used for used in source.all_input_nodes if isinstance(used.meta.get("val"), torch.Tensor)
    ]


def _has_nan(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.isnan().any())
    )


def _distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Return how far apart they are; infinitely where one of them alone is finite."""
    distance = (one.double() - other.double()).abs()
    same = (one == other) | (one.isnan() & other.isnan())
    return torch.where(same, 0.0, torch.where(distance.isnan(), torch.inf, distance))
