"""Runs `tensorrt` and `tensorrt-rtx` plans on a GPU; one path for both, their modules are alike."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import torch

from .. import _native
from ..errors import ExecutionError, ExecutorUnavailableError, PlanError
from ..info import Binding, EngineInfo
from .bound import Bound
from .memory import Region

_MODULES: Mapping[str, str] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
# Members of the module's DataType by torch name. By name: their integers differ between versions.
_TYPES: Mapping[str, str] = {
    "float32": "FLOAT",
    "float16": "HALF",
    "bfloat16": "BF16",
    "int64": "INT64",
    "int32": "INT32",
    "int8": "INT8",
    "uint8": "UINT8",
    "bool": "BOOL",
}
_RTX_CAPABILITIES = ("SM75", "SM80", "SM86", "SM89", "SM120", "SM121")


class TensorRTExecutor:
    """A TensorRT execution context over a plan.

    A context runs one thing at a time: calls from several threads or on several streams queue up.
    """

    ALIASES_IN_PLACE: ClassVar[bool] = True

    def __init__(self, info: EngineInfo, plan: _native.Plan) -> None:
        """Deserialize the plan on the record's device.

        Raises:
            ExecutorUnavailableError: the package or a GPU that the plan was built for is missing.
            PlanError: its inputs and outputs are not the record's.

        """
        self._name = info.name
        self._device, trt = _find_gpu(info, plan), _import_tensorrt(info, plan)
        self._log = _make_logger(trt)
        with torch.cuda.device(self._device):
            self._runtime = trt.Runtime(self._log)
            self._engine = self._runtime.deserialize_cuda_engine(memoryview(plan))
            if self._engine is None:
                raise self._unavailable(plan, "refused the plan")
            _compare_bindings(info, self._engine, trt)
            strategy = trt.ExecutionContextAllocationStrategy
            self._allocate_per_call = info.resource_allocation_strategy == "dynamic"
            self._context = self._engine.create_execution_context(
                strategy.USER_MANAGED if self._allocate_per_call else strategy.STATIC
            )
            if self._context is None:
                raise self._unavailable(plan, "made no execution context (out of memory?)")
            # Where empty tensors point: TensorRT refuses a null address even for no bytes.
            self._nothing = torch.empty(1, dtype=torch.uint8, device=self._device)
            self._finished = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._inputs = [binding.name for binding in info.inputs]
        self._outputs = [binding.name for binding in info.outputs]
        self._busy = threading.Lock()

    @staticmethod
    def check(info: EngineInfo, plan: _native.Plan) -> None:
        """Check that TensorRT and a GPU are here that the plan names; raises ExecutorUnavailableError."""
        device = _find_gpu(info, plan)
        _import_tensorrt(info, plan)
        capability = "SM{}{}".format(*torch.cuda.get_device_capability(device))
        built_for = _capabilities(plan)
        if built_for and capability not in built_for:
            raise ExecutorUnavailableError(
                f"engine '{info.name}': expected {_target(plan)}, found {_describe_gpu(device)}; build the "
                "engine for this GPU, or run it on one that it was built for"
            )

    @staticmethod
    def describe_target(info: EngineInfo, plan: _native.Plan) -> str:
        """Return the device of the record and the GPU of the plan, as far as it tells."""
        return f"{_target(plan)}, as {info.device}"

    def run(self, inputs: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> None:
        """Enqueue the engine on the current stream of its device; raises ExecutionError."""
        with self._busy, torch.cuda.device(self._device):
            stream = torch.cuda.current_stream(self._device)
            # The context's scratch memory may still be in use by a call on another stream.
            stream.wait_event(self._finished)
            for name, tensor in zip(self._inputs, inputs, strict=True):
                self._must(
                    self._context.set_input_shape(name, tuple(tensor.shape)),
                    "set_input_shape",
                    name,
                )
                self._set_address(name, tensor)
            for name, tensor in zip(self._outputs, outputs, strict=True):
                found = list(self._context.get_tensor_shape(name))
                if found != list(tensor.shape):
                    raise ExecutionError(
                        f"engine '{self._name}', output '{name}': expected the shape "
                        f"{list(tensor.shape)} of the record, found {found} in TensorRT; the record is "
                        "wrong: build the engine again"
                    )
                self._set_address(name, tensor)
            scratch = self._allocate_scratch()
            self._must(
                self._context.execute_async_v3(stream.cuda_stream), "execute_async_v3", "all"
            )
            self._finished.record(stream)
            # The allocator hands memory out again in the order of this stream, so it may go now.
            del scratch

    def bind(self, inputs: Sequence[Region], outputs: Sequence[Region]) -> Bound:
        """Return what runs on this memory of the CPU, by way of the GPU's; raises ExecutionError.

        Regions of the same address share their memory on the GPU too: an output that is written over an
        input, or a tensor that the program views in several shapes.
        """
        regions = (*inputs, *outputs)
        with torch.cuda.device(self._device):
            memory = {
                address: self._allocate(max(r.nbytes for r in regions if r.address == address))
                for address in {region.address for region in regions}
            }
        taken = [(r.as_tensor(), r.view_of(memory[r.address])) for r in inputs]
        given = [(r.as_tensor(), r.view_of(memory[r.address])) for r in outputs]

        def run() -> None:
            for host, device in taken:
                device.copy_(host)
            self.run([device for _, device in taken], [device for _, device in given])
            for host, device in given:
                host.copy_(device)  # waits for the stream

        return Bound(run)

    def _allocate(self, size: int) -> torch.Tensor:
        return torch.empty(size, dtype=torch.uint8, device=self._device)

    def _set_address(self, name: str, tensor: torch.Tensor) -> None:
        address = tensor.data_ptr() or self._nothing.data_ptr()
        self._must(self._context.set_tensor_address(name, address), "set_tensor_address", name)

    def _allocate_scratch(self) -> torch.Tensor | None:
        if not self._allocate_per_call:
            return None
        size = self._context.update_device_memory_size_for_shapes()
        scratch = torch.empty(max(size, 1), dtype=torch.uint8, device=self._device)
        self._context.set_device_memory(scratch.data_ptr(), size)
        return scratch

    def _must(self, done: bool, call: str, binding: str) -> None:
        if not done:
            raise ExecutionError(
                f"engine '{self._name}': expected TensorRT's {call} to succeed for binding '{binding}', "
                f"found: {self._log.last}"
            )

    def _unavailable(self, plan: _native.Plan, what: str) -> ExecutorUnavailableError:
        return ExecutorUnavailableError(
            f"engine '{self._name}': expected {_target(plan)}, found {_describe_gpu(self._device)}, where "
            f"TensorRT {what}: {self._log.last}; build the engine for this GPU, or run it on one that it "
            "was built for"
        )


def _find_gpu(info: EngineInfo, plan: _native.Plan) -> torch.device:
    device = torch.device(info.device)
    if device.type != "cuda":
        raise ExecutorUnavailableError(
            f"engine '{info.name}': expected a CUDA device for a {plan.format} plan, found the record's "
            f"device {info.device}; build the engine for cuda:0"
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device.index >= count:
        cause = "" if torch.version.cuda else f", and this torch ({torch.__version__}) has no CUDA"
        raise ExecutorUnavailableError(
            f"engine '{info.name}': expected {_target(plan)} as {info.device}, found {count} CUDA devices"
            f"{cause}; run it on a machine with such a GPU and a CUDA build of torch, or build it with "
            "builder='onnxruntime' to run it here"
        )
    return device


def _import_tensorrt(info: EngineInfo, plan: _native.Plan) -> Any:
    name = _MODULES[plan.format]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ExecutorUnavailableError(
            f"engine '{info.name}': expected the package {name} to run a {plan.format} plan, found: "
            f"{error}; pip install 'trt-runtime[{plan.format}]'"
        ) from error


def _make_logger(trt: Any) -> Any:
    class Logger(trt.ILogger):  # type: ignore[misc]
        """Keeps the last error for our own messages and prints nothing."""

        def __init__(self) -> None:
            trt.ILogger.__init__(self)
            self.last = "no message"

        def log(self, severity: Any, message: str) -> None:
            if severity in (trt.ILogger.Severity.ERROR, trt.ILogger.Severity.INTERNAL_ERROR):
                self.last = message

    return Logger()


def _compare_bindings(info: EngineInfo, engine: Any, trt: Any) -> None:
    names = [engine.get_tensor_name(index) for index in range(engine.num_io_tensors)]
    for mode, bindings in (
        (trt.TensorIOMode.INPUT, info.inputs),
        (trt.TensorIOMode.OUTPUT, info.outputs),
    ):
        found = [name for name in names if engine.get_tensor_mode(name) == mode]
        expected = [binding.name for binding in bindings]
        if sorted(found) != sorted(expected):
            raise PlanError(
                f"engine '{info.name}': expected the {mode.name.lower()} bindings {sorted(expected)} of "
                f"the record, found {sorted(found)} in the plan; the plan belongs to another record: build "
                "it again"
            )
        for binding in bindings:
            _compare_binding(info.name, binding, engine, trt)


def _compare_binding(name: str, binding: Binding, engine: Any, trt: Any) -> None:
    where = f"engine '{name}', binding '{binding.name}'"
    found = engine.get_tensor_dtype(binding.name)
    member = _TYPES.get(binding.dtype)
    if member is None or found != getattr(trt.DataType, member, None):
        raise PlanError(
            f"{where}: expected the dtype {binding.dtype} of the record, found {found.name} in the plan; "
            "the plan belongs to another record: build it again"
        )
    rank = len(engine.get_tensor_shape(binding.name))
    if rank != len(binding.shape):
        raise PlanError(
            f"{where}: expected the rank {len(binding.shape)} of the record, found {rank} in the plan; the "
            "plan belongs to another record: build it again"
        )
    if engine.get_tensor_location(binding.name) != trt.TensorLocation.DEVICE:
        raise ExecutorUnavailableError(
            f"{where}: expected a tensor in GPU memory, found one that TensorRT reads on the host (a "
            "shape tensor); keep the operator that needs it outside the engine"
        )


def _capabilities(plan: _native.Plan) -> list[str]:
    """The compute capabilities that a plan was built for; empty if its undocumented header does not tell."""
    view = memoryview(plan)
    if plan.format != "tensorrt-rtx" or len(view) < 36:
        return []
    mask = int.from_bytes(view[32:36], "little")
    if mask >= 1 << len(_RTX_CAPABILITIES):
        return []
    return [name for bit, name in enumerate(_RTX_CAPABILITIES) if mask >> bit & 1]


def _target(plan: _native.Plan) -> str:
    names = _capabilities(plan)
    if names:
        return f"a GPU with compute capability {' or '.join(names)}"
    return "the GPU model that the plan was built for (the plan does not say which)"


def _describe_gpu(device: torch.device) -> str:
    major, minor = torch.cuda.get_device_capability(device)
    return f"{torch.cuda.get_device_name(device)} (SM{major}{minor}) as {device}"
