"""`load`: a `.pte` that runs, over ExecuTorch's own runtime."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from .. import _native, errors
from ..errors import (
    DelegateNameTakenError,
    ExecutionError,
    InputError,
    ProgramError,
    TrtRuntimeError,
)
from ..leaving import begin, end
from ..streams import give_streams
from .engine import verifying
from .inputs import prepare
from .pte import map_file, read_delegates, read_methods, read_named_data
from .registration import INLINE_BACKEND_ID, portable_library, register_delegate
from .signature import Value

AnyPath = str | bytes | os.PathLike[str]


class Program:
    """A loaded `.pte`. It may be used from several threads; calls of one method wait for each other.

    For calls at the same time, load it once for each thread: the file is mapped and an engine's executor is
    shared, so that costs little.
    """

    def __init__(
        self,
        path: AnyPath,
        data: AnyPath | None = None,
        verify: bool | None = None,
    ) -> None:
        """Map the file; `load` is the same by name."""
        give_streams()
        self._path = Path(os.fsdecode(path))
        files = [self._path] if data is None else [self._path, Path(os.fsdecode(data))]
        inputs = _read(files)
        _register_for(self._path)
        try:
            self._loaded: _Methods = (
                _Methods(files[0]) if data is None else _MethodsWithData(*files)
            )
            names = sorted(self._loaded.names())
        except (RuntimeError, MemoryError) as error:
            raise ProgramError(
                f"{' with '.join(map(str, files))}: expected an ExecuTorch program that loads, found: "
                f"{str(error) or type(error).__name__}; write it again"
            ) from error
        self._methods = {
            name: _Method(
                f"{self._path}, method {name!r}", self._loaded, name, verify, inputs.get(name, ())
            )
            for name in names
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
        found = self._methods.get(method) if isinstance(method, str) else None
        if found is None:
            raise ProgramError(
                f"{self._path}: expected one of the methods {', '.join(self._methods)}, found {method!r}; "
                "name one of them"
            )
        return found.run(inputs)

    def __repr__(self) -> str:
        return f"<trt_runtime.Program {str(self._path)!r} with {', '.join(self._methods)}>"


def load(
    path: AnyPath,
    data: AnyPath | None = None,
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


def _read(files: Sequence[Path]) -> dict[str, tuple[Value, ...]]:
    """Read the tables of the files with a reader that survives damage, and return the inputs of each method.

    Raises:
        OSError: a file cannot be read.
        ProgramError: one is damaged.

    """
    inputs: dict[str, tuple[Value, ...]] = {}
    for index, file in enumerate(files):
        data = map_file(file)
        try:
            if index == 0:
                read_delegates(data)
                inputs = read_methods(data)
            read_named_data(data)
        except ProgramError as error:
            raise ProgramError(f"{file}: {error}") from None
    return inputs


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

    def __init__(
        self,
        where: str,
        loaded: _Methods,
        name: str,
        verify: bool | None,
        inputs: Sequence[Value],
    ) -> None:
        self._where = where
        self._loaded = loaded
        self._name = name
        self._verify = verify
        self._inputs = inputs
        self._lock = threading.RLock()
        self._execute: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._num_inputs = 0

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        # ExecuTorch's methods hold their state and memory, and are for one call at a time.
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise ExecutionError(
                f"{self._where}: expected one call at a time, found a second one from within the first, such as from "
                "a signal handler; load the program once more for that"
            )
        call = object()
        with self._lock:
            try:
                begin(call)
                if self._execute is None:
                    return self._run_first(inputs)
                return self._run(self._execute, inputs)
            finally:
                end(call)

    def _run_first(self, inputs: Sequence[Any]) -> list[Any]:
        _native.forget_delegate_error()
        with verifying(self._verify):
            try:
                execute, self._num_inputs = self._loaded.load(self._name)
            except (RuntimeError, MemoryError) as error:
                raise _explain(error, self._where, "a method that loads") from error
            results = self._run(execute, inputs)
        self._execute = execute
        return results

    def _run(
        self, execute: Callable[[Sequence[Any]], Sequence[Any]], inputs: Sequence[Any]
    ) -> list[Any]:
        prepared = prepare(self._where, inputs, self._num_inputs)
        _native.forget_delegate_error()  # what a call of someone else left
        try:
            return list(execute(prepared))
        # The bindings of ExecuTorch raise the others for numbers that have no place in C++.
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise _explain(
                error, self._where, "a method that runs on these inputs", self._refusal(prepared)
            ) from error

    def _refusal(self, inputs: Sequence[Any]) -> str | None:
        """What is wrong with the inputs, now that ExecuTorch has refused something."""
        for index, (expected, value) in enumerate(zip(self._inputs, inputs, strict=False)):
            refusal = expected.refusal(value)
            if refusal is not None:
                return f"{self._where}, input {index}: {refusal}"
        return None


def _explain(
    error: Exception, what: str, expected: str, refusal: str | None = None
) -> TrtRuntimeError:
    """Make of ExecuTorch's bare RuntimeError what our delegate said, if it said something.

    Raises:
        BaseException: what interrupted the engine, such as KeyboardInterrupt.

    """
    interruption = _native.take_interruption()
    name, message = _native.take_delegate_error()
    if interruption is not None:
        raise interruption from None
    if name:
        kind: type[TrtRuntimeError] = getattr(errors, name)
        return kind(f"{what}: {message}")
    if refusal is not None:
        return InputError(refusal)
    return ProgramError(f"{what}: expected {expected}, found: {str(error) or type(error).__name__}")
