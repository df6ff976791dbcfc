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

        with _explained(f"{self._path}: expected an ExecuTorch program that loads"):
            self._program = Runtime.get().load_program(self._path)
        self._methods = {name: _Method(self, name) for name in sorted(self._program.method_names)}

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self._methods)

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Run a method; the first run of each loads it, with its engines.

        State that the program mutates (a KV cache) is kept from run to run, per loaded program.

        Args:
            inputs: tensors on the CPU (of any strides), ints, floats and bools, in the order of the program.
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

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        # ExecuTorch's methods hold their state and memory, and are for one call at a time.
        with self._lock:
            if self._method is None:
                with _explained(f"{self._where}: expected a method that loads"):
                    self._method = self._program.load_method(self._name)
            prepared = self._prepare(inputs)
            with _explained(f"{self._where}: expected a method that runs on these inputs"):
                return list(self._method.execute(prepared))

    def _prepare(self, inputs: Sequence[Any]) -> list[Any]:
        """Check what ExecuTorch says least about, and give it memory that it can read."""
        expected = self._method.metadata.num_inputs()
        if len(inputs) != expected:
            raise InputError(f"{self._where}: expected {expected} inputs, found {len(inputs)}")
        for index, value in enumerate(inputs):
            if not isinstance(value, (torch.Tensor, int, float, bool)):
                raise InputError(
                    f"{self._where}, input {index}: expected a tensor or a number, found "
                    f"{type(value).__name__}; convert it, such as with torch.from_numpy"
                )
            if isinstance(value, torch.Tensor) and value.device.type != "cpu":
                raise InputError(
                    f"{self._where}, input {index}: expected a tensor on the CPU, found one on "
                    f"{value.device}; move it: .cpu()"
                )
        return [
            value.detach().contiguous() if isinstance(value, torch.Tensor) else value
            for value in inputs
        ]


class _explained:
    """Turns ExecuTorch's bare RuntimeError into what our delegate said, if it said something."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> None:
        _native.take_delegate_error()  # what an earlier call left

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not isinstance(error, RuntimeError) or isinstance(error, TrtRuntimeError):
            return
        name, message = _native.take_delegate_error()
        if name:
            raise getattr(errors, name)(f"{self._what.partition(':')[0]}: {message}") from error
        raise ProgramError(f"{self._what}, found: {error}") from error

