"""A double of the TensorRT bindings: records every call, and which names of them were used.

It knows one engine: [1 to 16, 8] relu from `in_0` to `out_0`. What tests vary are its attributes.
"""

from __future__ import annotations

from contextlib import nullcontext
from enum import Enum
from typing import Any

import torch

DataType = Enum("DataType", ["FLOAT", "HALF", "BF16", "INT64", "INT32", "INT8", "UINT8", "BOOL"])
TensorIOMode = Enum("TensorIOMode", ["NONE", "INPUT", "OUTPUT"])
TensorLocation = Enum("TensorLocation", ["DEVICE", "HOST"])
Strategy = Enum("Strategy", ["STATIC", "ON_PROFILE_CHANGE", "USER_MANAGED"])


class Recorded:
    """Remembers which of its public names were used."""

    real_name = ""

    def __init__(self, used: set[tuple[str, str]]) -> None:
        self._used = used

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("_") and name != "real_name":
            self._used.add((type(self).real_name, name))
        return object.__getattribute__(self, name)


class Context(Recorded):
    real_name = "IExecutionContext"

    def __init__(self, used: set[tuple[str, str]], double: Double) -> None:
        super().__init__(used)
        self._double = double

    def _call(self, name: str, *args: Any) -> bool:
        self._double.calls.append((name, *args))
        if name == self._double.failing:
            self._double.log.log(DoubleLogger.Severity.ERROR, f"{name} went wrong")
            return False
        return True

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        self._double.shape = shape
        return self._call("set_input_shape", name, shape)

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return self._double.output_shape or self._double.shape

    def set_tensor_address(self, name: str, address: int) -> bool:
        return self._call("set_tensor_address", name, address)

    def execute_async_v3(self, stream: int) -> bool:
        return self._call("execute_async_v3", stream)

    def update_device_memory_size_for_shapes(self) -> int:
        self._call("update_device_memory_size_for_shapes")
        return 1000

    def set_device_memory(self, address: int, size: int) -> None:
        self._call("set_device_memory", size)


class Engine(Recorded):
    real_name = "ICudaEngine"

    def __init__(self, used: set[tuple[str, str]], double: Double) -> None:
        super().__init__(used)
        self._double = double

    @property
    def num_io_tensors(self) -> int:
        return len(self._double.names)

    def get_tensor_name(self, index: int) -> str:
        return list(self._double.names)[index]

    def get_tensor_mode(self, name: str) -> TensorIOMode:
        return self._double.names[name]

    def get_tensor_dtype(self, name: str) -> DataType:
        return self._double.dtype

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        return (-1, 8)[: self._double.rank]

    def get_tensor_location(self, name: str) -> TensorLocation:
        return self._double.location

    def create_execution_context(self, strategy: Strategy) -> Context:
        self._double.calls.append(("create_execution_context", strategy.name))
        return Context(self._used, self._double)


class DoubleLogger:
    Severity = Enum("Severity", ["INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE"])


class Double(Recorded):
    """The module."""

    DataType = DataType
    TensorIOMode = TensorIOMode
    TensorLocation = TensorLocation
    ExecutionContextAllocationStrategy = Strategy
    ILogger = DoubleLogger

    def __init__(self) -> None:
        super().__init__(set())
        self.calls: list[tuple[Any, ...]] = []
        self.names = {"in_0": TensorIOMode.INPUT, "out_0": TensorIOMode.OUTPUT}
        self.dtype, self.rank, self.location = DataType.FLOAT, 2, TensorLocation.DEVICE
        self.refuses = False
        self.failing = ""
        self.output_shape: tuple[int, ...] = ()
        self.shape: tuple[int, ...] = ()
        self.log: Any = None
        self._used.clear()

    def Runtime(self, log: Any) -> Any:  # noqa: N802 - as TensorRT has it
        self.log = log
        double = self

        class Runtime(Recorded):
            real_name = "Runtime"

            def deserialize_cuda_engine(self, plan: memoryview) -> Engine | None:
                double.calls.append(("deserialize_cuda_engine", bytes(plan[:4]), len(plan)))
                if double.refuses:
                    log.log(DoubleLogger.Severity.WARNING, "only a warning")
                    log.log(DoubleLogger.Severity.ERROR, "wrong GPU")
                    return None
                return Engine(self._used, double)

        return Runtime(self._used)


class Stream:
    """A double of torch's current stream, which a CPU build of torch has not."""

    cuda_stream = 4711

    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._calls = calls

    def wait_event(self, event: Event) -> None:
        self._calls.append(("wait_event",))


class Event:
    def __init__(self, calls: list[tuple[Any, ...]]) -> None:
        self._calls = calls

    def record(self, stream: Stream) -> None:
        self._calls.append(("record_event",))


def install(monkeypatch: Any, double: Double, module: str) -> None:
    """Put the double in the place of the module, and the CPU in the place of a GPU."""
    monkeypatch.setitem(__import__("sys").modules, module, double)
    monkeypatch.setattr(
        "trt_runtime.executors.tensorrt._find_gpu", lambda info, plan: torch.device("cpu")
    )
    monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream(double.calls))
    monkeypatch.setattr(torch.cuda, "Event", lambda: Event(double.calls))
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA H200")
