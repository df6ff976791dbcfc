"""`load`: a `.pte` that runs, over ExecuTorch's own runtime."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from .. import _native, errors
from ..errors import InputError, ProgramError, TrtRuntimeError
from .registration import register_delegate


class Program:
    """A loaded `.pte`. It may be used from several threads; calls of one method wait for each other.

    For calls at the same time, load it once for each thread: the file is mapped and an engine's executor is
    shared, so that costs little.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Map the file; `load` is the same by name."""
        self._path = Path(path)
        with self._path.open("rb"):  # a readable message for what cannot be read
            pass
        register_delegate()
        from executorch.runtime import Runtime

        try:
            self._program = Runtime.get().load_program(self._path)
        except RuntimeError as error:
            raise ProgramError(
                f"{self._path}: expected an ExecuTorch program that loads, found: {error}"
            ) from error
        self._methods = {name: _Method(self, name) for name in sorted(self._program.method_names)}

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self._methods)

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Run a method; the first run of each loads it, with its engines.

        State that the program mutates (a KV cache) is kept from run to run, per loaded program.

        Args:
            inputs: tensors on the CPU (of any strides), ints, floats, bools and None, in the order of the program.
            method: one of `methods`.

        Returns:
            The outputs, tensors of their own memory or numbers.

        Raises:
            ProgramError: no such method, or ExecuTorch cannot load or run it.
            InputError: the inputs are not what the method takes.
            ExecutorUnavailableError, PlanError, RecordError: an engine cannot be loaded here.
            ExecutionError: an engine was run and failed.

        """
        found = self._methods.get(method)
        if found is None:
            raise ProgramError(
                f"{self._path}: expected one of the methods {', '.join(self._methods)}, found {method!r}"
            )
        return found.run(inputs)

    def __repr__(self) -> str:
        return f"<trt_runtime.Program {str(self._path)!r} with {', '.join(self._methods)}>"


def load(path: str | os.PathLike[str]) -> Program:
    """Load a `.pte` to run it here.

    Args:
        path: the file; it is mapped, not read.

    Raises:
        OSError: the file cannot be opened.
        ProgramError: it is no ExecuTorch program, or damaged.
        ExecutorUnavailableError: ExecuTorch is missing, or another library took our delegate's place.

    """
    return Program(path)


class _Method:
    """One method, loaded by its first run."""

    def __init__(self, owner: Program, name: str) -> None:
        self._where = f"{owner._path}, method {name!r}"
        self._program = owner._program
        self._name = name
        self._lock = threading.Lock()
        self._method: Any = None
        self._num_inputs = 0

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        # ExecuTorch's methods hold their state and memory, and are for one call at a time.
        with self._lock:
            if self._method is None:
                self._load()
            prepared = self._prepare(inputs)
            _native.forget_delegate_error()  # what a call of someone else left
            try:
                return list(self._method.execute(prepared))
            except RuntimeError as error:
                raise _explain(error, self._where, "a method that runs on these inputs") from error

    def _load(self) -> None:
        _native.forget_delegate_error()
        try:
            self._method = self._program.load_method(self._name)
        except RuntimeError as error:
            raise _explain(error, self._where, "a method that loads") from error
        self._num_inputs = self._method.metadata.num_inputs()

    def _prepare(self, inputs: Sequence[Any]) -> list[Any]:
        """Check what ExecuTorch says least about, and give it memory that it can read."""
        if len(inputs) != self._num_inputs:
            raise InputError(
                f"{self._where}: expected {self._num_inputs} inputs, found {len(inputs)}"
            )
        return [self._prepare_one(index, value) for index, value in enumerate(inputs)]

    def _prepare_one(self, index: int, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if value.device.type != "cpu":
                raise InputError(
                    f"{self._where}, input {index}: expected a tensor on the CPU, found one on "
                    f"{value.device}; move it: .cpu()"
                )
            return value if value.is_contiguous() else value.contiguous()
        if value is None or isinstance(value, (int, float)):
            return value
        raise InputError(
            f"{self._where}, input {index}: expected a tensor, a number or None, found "
            f"{type(value).__name__}; convert it, such as with torch.from_numpy"
        )


def _explain(error: RuntimeError, what: str, expected: str) -> TrtRuntimeError:
    """Make of ExecuTorch's bare RuntimeError what our delegate said, if it said something."""
    name, message = _native.take_delegate_error()
    if name:
        kind: type[TrtRuntimeError] = getattr(errors, name)
        return kind(f"{what}: {message}")
    return ProgramError(f"{what}: expected {expected}, found: {error}")
