"""From a record and a plan to something that runs, the same way for every plan format."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

import torch

from .. import _native
from ..checking import ShapeChecker
from ..errors import ExecutorUnavailableError, PlanError
from ..info import EngineInfo
from ..leaving import begin, end
from ..record import check_plan, info_from_fields
from .bound import Bound
from .memory import Region
from .onnxruntime import OnnxRuntimeExecutor
from .tensorrt import TensorRTExecutor


class Executor(Protocol):
    """Runs one plan; from several threads at once."""

    def __init__(self, info: EngineInfo, plan: _native.Plan) -> None:
        """Deserialize a plan; raises ExecutorUnavailableError or PlanError."""

    @staticmethod
    def check(info: EngineInfo, plan: _native.Plan) -> None:
        """Check all that can be told without deserializing; raises ExecutorUnavailableError."""

    @staticmethod
    def describe_target(info: EngineInfo, plan: _native.Plan) -> str:
        """Return what the plan was built for, for people."""

    ALIASES_IN_PLACE: ClassVar[bool]
    """Whether an output that aliases an input must be given that input's memory (else, must not)."""

    def run(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Compute ``outputs`` in place.

        Both are contiguous, on the record's device, of its dtypes and checked shapes.
        Raises ExecutionError.
        """

    def bind(self, inputs: Sequence[Region], outputs: Sequence[Region]) -> Bound:
        """Return what computes ``outputs`` in place whenever it is called.

        All regions are the CPU's memory, of the record's dtypes and checked shapes; they outlive the
        result. Raises ExecutionError, as does the result.
        """


EXECUTORS: Mapping[str, type[Executor]] = {
    "onnxruntime": OnnxRuntimeExecutor,
    "tensorrt": TensorRTExecutor,
    "tensorrt-rtx": TensorRTExecutor,
}


def check(fields: Mapping[str, Any], plan_format: str, plan_size: int) -> None:
    """Check a record when an engine is made of it; raises RecordError or PlanError."""
    check_plan(info_from_fields(fields), plan_format, plan_size)


def load(fields: Mapping[str, Any], plan: _native.Plan) -> Runner:
    """Deserialize a plan.

    Raises:
        PlanError: its bytes are not those that the record was made for.
        ExecutorUnavailableError: nothing here can run it.

    """
    info = info_from_fields(fields)
    if info.aliased_io:  # in place, which no functional op can be; a delegate can
        raise _refuse(info, "aliased_io")
    verify_plan(info, plan)
    return Runner(info, open_executor(info, plan))


def open_executor(info: EngineInfo, plan: _native.Plan) -> Executor:
    """Deserialize a plan that has been verified; raises PlanError or ExecutorUnavailableError."""
    _check_flags(info)
    call = object()
    try:
        begin(call)
        return EXECUTORS[plan.format](info, plan)
    finally:
        end(call)


def check_executor(info: EngineInfo, plan: _native.Plan) -> None:
    """Check all that can be told without deserializing a plan; raises ExecutorUnavailableError."""
    _check_flags(info)
    EXECUTORS[plan.format].check(info, plan)


def describe_target(info: EngineInfo, plan: _native.Plan) -> str:
    """Return what a plan was built for, for people, such as ``cpu``."""
    return EXECUTORS[plan.format].describe_target(info, plan)


def _check_flags(info: EngineInfo) -> None:
    for flag in ("requires_output_allocator", "requires_native_multidevice"):
        if getattr(info, flag):
            raise _refuse(info, flag)


def _refuse(info: EngineInfo, flag: str) -> ExecutorUnavailableError:
    return ExecutorUnavailableError(
        f"engine '{info.name}': expected an engine without {flag}, found one with it; this "
        f"trt-runtime ({_native.build_info()['version']}) cannot run it: build it without, or "
        "pip install -U trt-runtime"
    )


def verify_plan(info: EngineInfo, plan: _native.Plan) -> None:
    """Compare a plan with the record's digest; reads all of it, once in its life. Raises PlanError."""
    assert info.plan is not None  # checked when the engine was made
    _compare(info.name, "plan", info.plan.sha256, plan.verified_sha256)
    # A record made of a damaged plan has the damaged plan's hash; the builder's is in the header.
    if plan.vouches_for_itself and plan.payload_sha256:
        payload = hashlib.sha256(memoryview(plan)[plan.payload_offset :]).hexdigest()
        _native.count_plan_hash()
        _compare(info.name, "payload of the plan", plan.payload_sha256.hex(), payload)
        plan.vouches_for_itself = False


def _compare(engine: str, what: str, expected: str, found: str) -> None:
    if expected != found:
        raise PlanError(
            f"engine '{engine}': expected the sha256 {expected} of the {what}, found {found}; the plan "
            "is damaged or belongs to another record: build it again"
        )


class Runner:
    """An executor behind the checks of the record; what the native engine calls."""

    def __init__(self, info: EngineInfo, executor: Executor) -> None:
        self._checker = ShapeChecker(info)
        self._executor = executor
        self._device = torch.device(info.device)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Check, allocate and run; raises InputError or ExecutionError."""
        outputs = [
            torch.empty(shape, dtype=binding.torch_dtype, device=self._device)
            for binding, shape in self._checker.outputs(inputs)
        ]
        # Executors read memory by address. Lazy negation and conjugation are dealt with by torch's
        # dispatcher, strides are not.
        call = object()
        try:
            begin(call)
            self._executor.run([tensor.contiguous() for tensor in inputs], outputs)
        finally:
            end(call)
        return outputs
