"""Runs `onnxruntime` plans on the CPU, on torch's own memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import torch

from .. import _native
from ..errors import ExecutionError, ExecutorUnavailableError, PlanError
from ..info import Binding, EngineInfo
from .bound import Bound
from .memory import Region
from .onnx_session import Session

# torch name: (ONNX's TensorProto.DataType, ONNX Runtime's name of it)
_TYPES: Mapping[str, tuple[int, str]] = {
    "float32": (1, "tensor(float)"),
    "uint8": (2, "tensor(uint8)"),
    "int8": (3, "tensor(int8)"),
    "int16": (5, "tensor(int16)"),
    "int32": (6, "tensor(int32)"),
    "int64": (7, "tensor(int64)"),
    "bool": (9, "tensor(bool)"),
    "float16": (10, "tensor(float16)"),
    "float64": (11, "tensor(double)"),
}


class OnnxRuntimeExecutor:
    """An ONNX Runtime session over the ONNX model of a plan."""

    ALIASES_IN_PLACE: ClassVar[bool] = (
        False  # it does not know of aliases, and reads inputs when it likes
    )

    def __init__(self, info: EngineInfo, plan: _native.Plan) -> None:
        """Make the session, which reads its large weights where they are in the plan: it keeps the plan.

        Raises:
            ExecutorUnavailableError: onnxruntime is missing, or the engine is not for its CPU kernels.
            PlanError: the model does not load, or its inputs and outputs are not the record's.

        """
        self.check(info, plan)
        import onnxruntime

        try:
            self._session = Session(
                memoryview(plan)[plan.payload_offset :], plan.model_size, prepack=info.prepack
            )
        except Exception as error:  # a dozen classes of the extension module, without a common base
            raise PlanError(
                f"engine '{info.name}': expected an ONNX model that ONNX Runtime "
                f"{onnxruntime.__version__} loads, found: {error}; build the engine again"
            ) from error
        self._name = info.name
        self._inputs = [(binding.name, _TYPES[binding.dtype][0]) for binding in info.inputs]
        self._outputs = [(binding.name, _TYPES[binding.dtype][0]) for binding in info.outputs]
        _compare(info.name, "inputs", info.inputs, self._session.ort.get_inputs())
        _compare(info.name, "outputs", info.outputs, self._session.ort.get_outputs())

    @staticmethod
    def check(info: EngineInfo, plan: _native.Plan) -> None:
        """Check that ONNX Runtime is here and can take the record; raises ExecutorUnavailableError, PlanError."""
        _check_supported(info)
        _check_names(info)
        try:
            import onnxruntime  # noqa: F401
        except ImportError as error:
            raise ExecutorUnavailableError(
                f"engine '{info.name}': expected the package onnxruntime to run it, found: {error}; "
                "pip install 'onnxruntime>=1.32,<2'"
            ) from error

    @staticmethod
    def describe_target(info: EngineInfo, plan: _native.Plan) -> str:
        """Return the device of the record."""
        return info.device

    def run(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Compute ``outputs`` in place; raises ExecutionError."""
        self.bind([Region.of(x) for x in inputs], [Region.of(y) for y in outputs])()

    def bind(self, inputs: Sequence[Region], outputs: Sequence[Region]) -> Bound:
        """Return what runs on this memory of the CPU; raises ExecutionError."""
        explain = partial(self._explain, inputs, outputs)
        binding = self._session.ort.io_binding()
        try:
            for (name, element), region in zip(self._inputs, inputs, strict=True):
                binding.bind_input(name, "cpu", 0, element, region.shape, _address(region))
            for (name, element), region in zip(self._outputs, outputs, strict=True):
                binding.bind_output(name, "cpu", 0, element, region.shape, _address(region))
        except Exception as error:
            raise explain(error) from error
        # What is beneath ONNX Runtime's Python classes: they cost a small engine a tenth of its time.
        run = partial(self._session.ort._sess.run_with_iobinding, binding._iobinding, None)
        return Bound(run, explain, keeps=self._session)

    def _explain(
        self, inputs: Sequence[Region], outputs: Sequence[Region], error: Exception
    ) -> ExecutionError:
        return ExecutionError(
            f"engine '{self._name}': expected ONNX Runtime to run it on inputs of the shapes "
            f"{[list(region.shape) for region in inputs]} into outputs of "
            f"{[list(region.shape) for region in outputs]}, found: {error}"
        )


# An empty tensor has no address, and ONNX Runtime refuses a null one though it reads nothing there.
_NOTHING = torch.empty(1)


def _address(region: Region) -> int:
    return region.address or _NOTHING.data_ptr()


def _check_supported(info: EngineInfo) -> None:
    if info.device != "cpu":
        raise ExecutorUnavailableError(
            f"engine '{info.name}': expected the device cpu for an onnxruntime plan, found "
            f"{info.device}; build the engine for the CPU, or with a TensorRT builder"
        )
    for binding in (*info.inputs, *info.outputs):
        if binding.dtype not in _TYPES:
            raise ExecutorUnavailableError(
                f"engine '{info.name}', binding '{binding.name}': expected one of {', '.join(_TYPES)}, "
                f"found {binding.dtype}, for which ONNX Runtime has no CPU kernels; use float32 or "
                "float16, or a TensorRT builder"
            )


def _check_names(info: EngineInfo) -> None:
    # ONNX Runtime hands such an input on as it is, and never writes to the memory bound for the output.
    both = {binding.name for binding in info.inputs} & {binding.name for binding in info.outputs}
    if both:
        raise PlanError(
            f"engine '{info.name}': expected names of outputs that no input has, found {sorted(both)} on "
            "both sides; put an Identity before the output and build the engine again"
        )


def _compare(engine: str, what: str, bindings: Sequence[Binding], nodes: Sequence[Any]) -> None:
    expected = [(binding.name, _TYPES[binding.dtype][1]) for binding in bindings]
    found = [(node.name, node.type) for node in nodes]
    if sorted(expected) != sorted(found):
        raise PlanError(
            f"engine '{engine}': expected the {what} {expected} of the record, found {found} in the "
            "ONNX model; the plan belongs to another record: build it again"
        )
