"""Compares the ONNX model of a partition with PyTorch, on the inputs that the program was exported with.

torch.onnx's converters ignore some arguments without a word: the divisor of an average pool, the offset of
`as_strided`, the mean of `scatter_reduce`. A parser takes such a model gladly, so only its numbers tell.
"""

import logging
from collections.abc import Collection
from typing import Any

import numpy as np
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Interpreter, Node

from trt_export.builders import NodeRefusal, run_model
from trt_export.compiling.onnx_model import OnnxPartition

_log = logging.getLogger("trt_export")

# Of the largest number in the tensor. This finds wrong formulas, not rounding: the tests measure that.
_TOLERANCES = {torch.float64: 1e-3, torch.float32: 1e-3, torch.float16: 3e-2}
_TOLERANCE_OF_INTEGERS = 1e-3
# Near a tie, `argmax` and `>` turn rounding into other integers: a few are no wrong formula.
_OTHER_INTEGERS = 0.01


class Verifier:
    """Runs a decomposed program once on its example inputs; after that it verifies partitions of it."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._values: dict[Node, Any] = {}

    def run(self, kept: Collection[Node]) -> bool:
        """Run the program and keep the values of these nodes; False if it has no example inputs or does not run."""
        try:
            self._values = _Recorder(self._program, kept).record()
        except Exception as error:  # example inputs may be on a device that is not here
            _log.info("the ONNX models are not verified: the program does not run here: %s", error)
            return False
        return True

    def differences(self, model: OnnxPartition, *, must_run: bool) -> list[NodeRefusal]:
        """Return what speaks against a partition: that ONNX Runtime computes other numbers than PyTorch.

        That ONNX Runtime cannot run the model at all speaks against it only if it `must_run`, for the plan is run so.
        """
        subprogram = model.subprogram
        if any(node not in self._values for node in subprogram.inputs):
            return []  # a part of a partition, which begins at values that were not kept
        inputs = [self._values[node] for node in subprogram.inputs]
        try:
            found = run_model(model.file, [value.detach().cpu().numpy() for value in inputs])
        except Exception as error:
            reason = f"ONNX Runtime cannot run it: {str(error).strip().splitlines()[0]}"
            return [NodeRefusal(model.file.named_node(str(error)), reason)] if must_run else []
        with torch.no_grad():
            expected = Interpreter(subprogram.program.graph_module).run(
                *subprogram.weights(), *inputs
            )
        if all(
            _agree(one, other.detach().cpu()) for one, other in zip(found, expected, strict=True)
        ):
            return []
        return [NodeRefusal(None, "its ONNX model computes other numbers than PyTorch")]


class _Recorder(Interpreter):
    def __init__(self, program: ExportedProgram, kept: Collection[Node]) -> None:
        super().__init__(program.graph_module)
        self._program = program
        self._kept = kept
        self._recorded: dict[Node, Any] = {}

    def record(self) -> dict[Node, Any]:
        if self._program.example_inputs is None:
            raise ValueError("the program has no example inputs")
        args, kwargs = self._program.example_inputs
        users = iter(self._program._get_flat_args_with_check(args, kwargs)[0])  # type: ignore[no-untyped-call]
        tensors = {**self._program.state_dict, **self._program.constants}
        inputs = [
            next(users) if spec.kind is InputKind.USER_INPUT else tensors[spec.target]
            for spec in self._program.graph_signature.input_specs
        ]
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            self.run(*inputs)
        return self._recorded

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self._kept or n.op == "placeholder":
            self._recorded[n] = value
        return value


def _agree(found: np.ndarray, expected: torch.Tensor) -> bool:
    if list(found.shape) != list(expected.shape):
        return False
    if not found.size:
        return True
    one, other = found.astype(np.float64), expected.double().numpy()
    finite = other[np.isfinite(other)]
    tolerance = _TOLERANCES.get(expected.dtype, _TOLERANCE_OF_INTEGERS)
    scale = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
    close = np.isclose(one, other, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
    allowed = 0.0 if expected.is_floating_point() else _OTHER_INTEGERS
    return bool((~close).mean() <= allowed)
