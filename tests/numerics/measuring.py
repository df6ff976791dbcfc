"""Runs every call in PyTorch and, as one ONNX model for several calls, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx import Node

from trt_export.builders import BuildRequest
from trt_export.builders.onnxruntime import OnnxRuntimeBuilder
from trt_export.compiling.decomposition import decompose
from trt_export.compiling.onnx_model import convert
from trt_export.compiling.subprogram import CannotCut, Source
from trt_export.compiling.support import reasons_against
from trt_runtime.executors.onnx_session import Session

from .operators import Case
from .values import Values, values

_AT_ONCE = 24


@dataclass(frozen=True)
class Difference:
    """A number of a result that is another than PyTorch's, and the input that it was made of."""

    given: str
    pytorch: str
    engine: str
    finite: bool


@dataclass(frozen=True)
class Outcome:
    """What came of a call with a dtype: differences (none: the same numbers), or why it stays in PyTorch."""

    case: Case
    dtype: torch.dtype
    differences: tuple[Difference, ...] = ()
    stays: str = ""


def measure(cases: Sequence[Case], dtype: torch.dtype) -> list[Outcome]:
    """Try all cases with a dtype; those that PyTorch refuses are not in the result."""
    given = values(dtype)
    expected: dict[Case, tuple[Tensor, ...]] = {}
    for case in cases:
        try:
            expected[case] = _tensors(case(given))
            case(Values(*(tensor.to("meta") for tensor in given.tensors())))
        except NotImplementedError as error:
            if "meta" not in str(error).lower():
                expected.pop(case, None)
        except (RuntimeError, TypeError, IndexError, ZeroDivisionError):
            expected.pop(case, None)
    program = _Program(list(expected), given)
    found: dict[Case, Outcome] = {}
    for case, reason in program.stays().items():
        found[case] = Outcome(case, dtype, stays=reason)
    waiting = [case for case in expected if case not in found]
    while waiting:
        some, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        for case, result in program.run(some).items():
            if isinstance(result, str):
                found[case] = Outcome(case, dtype, stays=result)
            else:
                differences = _differences(case, given, expected[case], result)
                found[case] = Outcome(case, dtype, differences)
    return [found[case] for case in expected]


class _Calls(nn.Module):
    def __init__(self, cases: Sequence[Case]) -> None:
        super().__init__()
        self.cases = cases

    def forward(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        given = Values(*tensors)
        return tuple(tensor for case in self.cases for tensor in _tensors(case(given)))


class _Program:
    """All cases of a dtype as one program, of which some are translated and run at a time."""

    def __init__(self, cases: Sequence[Case], given: Values) -> None:
        with torch.no_grad():
            program = decompose(torch.export.export(_Calls(cases), given.tensors()))
        self._source = Source.of(program)
        self._inputs = dict(
            zip(program.graph.find_nodes(op="placeholder"), given.tensors(), strict=True)
        )
        self._outputs: dict[Case, list[Node]] = {}
        remaining = iter(program.graph.output_node().args[0])
        for case in cases:
            self._outputs[case] = [next(remaining) for _ in _tensors(case(given))]
        self._nodes = {case: _ancestors(self._outputs[case]) for case in cases}
        self._builder = OnnxRuntimeBuilder()

    def stays(self) -> dict[Case, str]:
        """Return the cases that `compile` does not even try to translate, with the reasons."""
        nodes = self._source.program.graph.nodes
        return self._of_cases(reasons_against(nodes, self._builder.refused_dtypes), self._nodes)

    def run(self, cases: Sequence[Case]) -> dict[Case, list[Tensor] | str]:
        """Return the results of cases, or why they cannot be in an engine."""
        try:
            stays, results = self._attempt(cases)
        except Exception as error:  # ONNX Runtime's have no common base
            if len(cases) == 1:
                return {cases[0]: str(error).strip().splitlines()[0]}
            half = len(cases) // 2
            return self.run(cases[:half]) | self.run(cases[half:])
        if not stays:
            return dict(results)
        return {**stays, **self.run([case for case in cases if case not in stays])}

    def _attempt(self, cases: Sequence[Case]) -> tuple[dict[Case, str], dict[Case, list[Tensor]]]:
        if not cases:
            return {}, {}
        wanted = {node for case in cases for node in self._nodes[case]}
        taken = [node for node in self._source.program.graph.nodes if node in wanted]
        try:
            model = convert(self._source, taken)
        except CannotCut as error:
            return self._of_cases(error.reasons, cases), {}
        refusals = self._builder.check(BuildRequest("all", model.file, (), ()))
        named = {
            model.origins[refusal.onnx_node]: refusal.reason
            for refusal in refusals
            if refusal.onnx_node in model.origins
        }
        if named:
            return self._of_cases(named, cases), {}
        if refusals:
            raise RuntimeError(refusals[0].reason)
        session = Session(memoryview(b"".join(bytes(chunk) for chunk in model.file.chunks())))
        feeds = {
            f"in_{position}": self._inputs[node].numpy()
            for position, node in enumerate(model.subprogram.inputs)
        }
        arrays = session.ort.run(None, feeds)
        by_node = self._inputs | {
            node: torch.from_numpy(array.copy())
            for node, array in zip(model.subprogram.outputs, arrays, strict=True)
        }
        return {}, {case: [by_node[node] for node in self._outputs[case]] for case in cases}

    def _of_cases(self, reasons: Mapping[Node, str], cases: Iterable[Case]) -> dict[Case, str]:
        return {
            case: reason
            for node, reason in reasons.items()
            for case in cases
            if node in self._nodes[case]
        }


def _ancestors(outputs: Sequence[Node]) -> set[Node]:
    """Return the nodes that outputs are computed by."""
    found: set[Node] = set()
    ways = list(outputs)
    while ways:
        node = ways.pop()
        if node not in found and node.op != "placeholder":
            found.add(node)
            ways.extend(node.all_input_nodes)
    return found


def _tensors(result: Any) -> tuple[Tensor, ...]:
    if isinstance(result, (tuple, list)):
        return tuple(one for one in result if isinstance(one, Tensor))
    if not isinstance(result, Tensor):
        raise TypeError(f"{type(result).__name__} is no tensor")
    return (result,)


_TOLERANCES = {torch.float32: 2e-6, torch.float64: 1e-13, torch.float16: 2e-3}


def _differences(
    case: Case, given: Values, expected: Sequence[Tensor], found: Sequence[Tensor]
) -> tuple[Difference, ...]:
    differences: list[Difference] = []
    for one, other in zip(found, expected, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return (Difference("", f"{list(other.shape)}", f"{list(one.shape)}", finite=True),)
        flat_one, flat_other = one.reshape(-1), other.reshape(-1)
        wrong = ~_equal(flat_one, flat_other)
        for position in wrong.nonzero().reshape(-1).tolist():
            sample = position // max(1, one[0].numel()) if one.ndim else 0
            expected_number, number = flat_other[position].item(), flat_one[position].item()
            inputs = ", ".join(_text(getattr(given, name)[sample].tolist()) for name in case.inputs)
            differences.append(
                Difference(
                    inputs, _text(expected_number), _text(number), _finite(expected_number, number)
                )
            )
    return tuple(dict.fromkeys(differences))


def _finite(*numbers: float) -> bool:
    return all(abs(number) < float("inf") for number in numbers)


def _equal(found: Tensor, expected: Tensor) -> Tensor:
    if not expected.dtype.is_floating_point:
        return found == expected
    one, other = found.double(), expected.double()
    tolerance = _TOLERANCES[expected.dtype]
    close = torch.isclose(one, other, rtol=tolerance, atol=0.0, equal_nan=True)
    return close & ((one != 0) | (other != 0) | (one.signbit() == other.signbit()))


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_text(one) for one in value) + "]"
    if isinstance(value, float):
        return f"{value:.7g}"
    return str(value)
