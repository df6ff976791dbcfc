"""`load`: a `.pte` that runs, over ExecuTorch's own runtime."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from .. import _native, errors
from ..errors import DelegateNameTakenError, InputError, ProgramError, TrtRuntimeError
from .engine import verifying
from .pte import map_file, read_delegates
from .registration import INLINE_BACKEND_ID, portable_library, register_delegate


class Program:
    """A loaded `.pte`. It may be used from several threads; calls of one method wait for each other.

    For calls at the same time, load it once for each thread: the file is mapped and an engine's executor is
    shared, so that costs little.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        data: str | os.PathLike[str] | None = None,
        verify: bool | None = None,
    ) -> None:
        """Map the file; `load` is the same by name."""
        self._path = Path(path)
        files = [self._path] if data is None else [self._path, Path(data)]
        for file in files:
            with file.open("rb"):  # a readable message for what cannot be read
                pass
        _register_for(self._path)
        try:
            self._loaded: _Methods = (
                _Methods(self._path) if data is None else _MethodsWithData(self._path, Path(data))
            )
        except RuntimeError as error:
            raise ProgramError(
                f"{' with '.join(map(str, files))}: expected an ExecuTorch program that loads, found: {error}"
            ) from error
        self._methods = {
            name: _Method(f"{self._path}, method {name!r}", self._loaded, name, verify)
            for name in sorted(self._loaded.names())
        }

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


def load(
    path: str | os.PathLike[str],
    data: str | os.PathLike[str] | None = None,
    *,
    verify: bool | None = None,
) -> Program:
    """Load a `.pte` to run it here.

    Args:
        path: the file; it is mapped, not read.
        data: the data file (`.ptd`) that the program was written with, if it has one; mapped too.
        verify: whether to read all of each plan, once in this process, and compare its sha256; a plan whose size is
            not the one it was lowered with is refused in any case. None: plans below 1 GB.

    Raises:
        OSError: a file cannot be opened.
        ProgramError: it is no ExecuTorch program, or damaged.
        ExecutorUnavailableError: ExecuTorch is missing, or another library took our delegate's place.

    """
    return Program(path, data, verify)


def _register_for(path: Path) -> None:
    """Register the delegate; another library's one matters only to programs that would be given to it."""
    try:
        register_delegate()
    except DelegateNameTakenError:
        if any(item.backend == INLINE_BACKEND_ID for item in read_delegates(map_file(path))):
            raise


class _Methods:
    """The methods of a program, by ExecuTorch's program object."""

    def __init__(self, path: Path) -> None:
        from executorch.runtime import Runtime

        self._program = Runtime.get().load_program(path)

    def names(self) -> Sequence[str]:
        return list(self._program.method_names)

    def load(self, name: str) -> tuple[Callable[[Sequence[Any]], Sequence[Any]], int]:
        """Load a method; what runs it, and the number of its inputs."""
        method = self._program.load_method(name)
        return method.execute, method.metadata.num_inputs()


class _MethodsWithData(_Methods):
    """The same by ExecuTorch's module object, which is what takes a data file; it loads a method when that runs."""

    def __init__(self, path: Path, data: Path) -> None:
        self._module = portable_library()._load_for_executorch(str(path), str(data))

    def names(self) -> Sequence[str]:
        return list(self._module.method_names())

    def load(self, name: str) -> tuple[Callable[[Sequence[Any]], Sequence[Any]], int]:
        return partial(self._module.run_method, name), self._module.method_meta(name).num_inputs()


class _Method:
    """One method, loaded by its first run."""

    def __init__(self, where: str, loaded: _Methods, name: str, verify: bool | None) -> None:
        self._where = where
        self._loaded = loaded
        self._name = name
        self._verify = verify
        self._lock = threading.Lock()
        self._execute: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._num_inputs = 0

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        # ExecuTorch's methods hold their state and memory, and are for one call at a time.
        with self._lock:
            if self._execute is None:
                return self._run_first(inputs)
            return self._run(self._execute, inputs)

    def _run_first(self, inputs: Sequence[Any]) -> list[Any]:
        _native.forget_delegate_error()
        with verifying(self._verify):
            try:
                execute, self._num_inputs = self._loaded.load(self._name)
            except RuntimeError as error:
                raise _explain(error, self._where, "a method that loads") from error
            results = self._run(execute, inputs)
        self._execute = execute
        return results

    def _run(
        self, execute: Callable[[Sequence[Any]], Sequence[Any]], inputs: Sequence[Any]
    ) -> list[Any]:
        prepared = self._prepare(inputs)
        _native.forget_delegate_error()  # what a call of someone else left
        try:
            return list(execute(prepared))
        except RuntimeError as error:
            raise _explain(error, self._where, "a method that runs on these inputs") from error

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
