"""Methods of a `.pte`, each with the memory that is its own or that it shares on purpose."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch

from .. import _native, errors
from ..errors import ExecutionError, InputError, ProgramError, TrtRuntimeError
from ..hints import hint
from ..leaving import begin, end
from .engine import verifying
from .inputs import prepare
from .registration import portable_library
from .signature import Signature
from .state import sharing_groups

Execute = Callable[[Sequence[Any]], Sequence[Any]]

# Of ExecuTorch's log in an error that nothing else explains; the first ones are the cause of the others.
_LOG_LINES = 3

_GIVE_DATA = (
    "trt_runtime.load(program, data=file)"  # in the delegate's message about a missing plan
)


class Loader(Protocol):
    """Loads methods of one file with ExecuTorch."""

    def load(self, name: str) -> Execute:
        """Load a method and return the function that runs it."""


class _OneMemory:
    """ExecuTorch's program object: one set of planned memory for all methods that are loaded from it.

    All of `names` are loaded together: loading a method writes the initial values of its buffers, which must not
    happen after another method has changed them.
    """

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        from executorch.runtime import Runtime

        self._program = Runtime.get().load_program(path)
        self._names = names
        self._loaded: dict[str, Execute] = {}

    def load(self, name: str) -> Execute:
        if name not in self._loaded:
            # load_method returns the same object for a method that is loaded already.
            self._loaded = {each: self._program.load_method(each).execute for each in self._names}
        return self._loaded[name]


class _OwnMemory:
    """ExecuTorch's module object: planned memory of its own for each method, and the one that takes a data file."""

    def __init__(self, path: Path, data: Path | None) -> None:
        self._module = portable_library()._load_for_executorch(
            str(path), None if data is None else str(data)
        )

    def load(self, name: str) -> Execute:
        # It loads a method when that runs first.
        return partial(self._module.run_method, name)


def load_methods(
    path: Path, data: Path | None, signatures: Mapping[str, Signature], verify: bool | None
) -> dict[str, Method]:
    """Load a file, and say of each method where its memory is.

    Raises:
        RuntimeError, MemoryError: ExecuTorch does not load the file.
        ProgramError: methods share memory in a way that no exporter writes, or in a file with a data file.

    """
    groups = sharing_groups(signatures)
    if groups and data is not None:
        raise ProgramError(
            f"expected methods with state of their own beside a data file, found {' and '.join(groups[0])}, "
            "which share theirs, and ExecuTorch's Python runtime has no shared memory for programs with a data file; "
            "write the program without data_file"
        )
    alone = [name for name in signatures if not any(name in group for group in groups)]
    loaders: list[tuple[Iterable[str], Loader, threading.RLock | None]] = [
        (group, _OneMemory(path, group), threading.RLock()) for group in groups
    ]
    if len(alone) == 1 and data is None:
        loaders.append((alone, _OneMemory(path, alone), None))
    elif alone:
        loaders.append((alone, _OwnMemory(path, data), None))
    methods = {
        name: Method(
            f"{path}, method {name!r}",
            loader,
            name,
            verify,
            signatures[name],
            lock or threading.RLock(),
        )
        for names, loader, lock in loaders
        for name in names
    }
    return {name: methods[name] for name in sorted(methods)}


class Method:
    """A method that loads itself when it runs first. Methods over one memory have one lock."""

    def __init__(
        self,
        where: str,
        loader: Loader,
        name: str,
        verify: bool | None,
        signature: Signature,
        lock: threading.RLock,
    ) -> None:
        self._where = where
        self._loader = loader
        self._name = name
        self._verify = verify
        self.signature = signature
        self._lock = lock
        self._execute: Execute | None = None

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Run it, as `Program.run` says."""
        # ExecuTorch's methods own their state and memory, and are for one call at a time.
        if self._lock._is_owned():  # type: ignore[attr-defined]
            raise ExecutionError(
                f"{self._where}: expected one call at a time, found a second one from within the first, such as from "
                "a signal handler; load the program once more for that"
            )
        call = object()
        with self._lock:
            try:
                begin(call)
                _native.begin_log_capture()  # what fails is in the exception: it is said once
                try:
                    if self._execute is None:
                        return self._run_first(inputs)
                    return self._run(self._execute, inputs)
                finally:
                    _native.end_log_capture()
            finally:
                end(call)

    def _run_first(self, inputs: Sequence[Any]) -> list[Any]:
        _native.forget_delegate_error()
        with verifying(self._verify):
            try:
                execute = self._loader.load(self._name)
            except (RuntimeError, MemoryError) as error:
                raise _explain(error, self._where, "a method that loads") from error
            results = self._run(execute, inputs)
        self._execute = execute
        return results

    def _run(self, execute: Execute, inputs: Sequence[Any]) -> list[Any]:
        prepared = prepare(self._where, inputs, self.signature)
        _native.forget_delegate_error()  # what a call of someone else left
        try:
            results = list(execute(prepared))
        # The bindings of ExecuTorch raise the others for numbers that have no place in C++.
        except (RuntimeError, TypeError, ValueError, OverflowError) as error:
            raise _explain(
                error, self._where, "a method that runs on these inputs", self._refusal(prepared)
            ) from error
        if self.signature.mutations:
            return self._write_back(inputs, results)
        return results

    def _write_back(self, inputs: Sequence[Any], results: list[Any]) -> list[Any]:
        """Copy mutated inputs into the caller's tensors, and return the other outputs."""
        with torch.no_grad():
            for output, source in self.signature.mutations:
                try:
                    inputs[source].copy_(results[output])
                except RuntimeError as error:
                    raise InputError(
                        f"{self._where}, input {source}: expected a tensor that can be written, because the model "
                        f"writes into it, found: {error}; pass a clone"
                    ) from error
        mutated = {output for output, _ in self.signature.mutations}
        return [result for index, result in enumerate(results) if index not in mutated]

    def _refusal(self, inputs: Sequence[Any]) -> str | None:
        """What is wrong with the inputs, now that ExecuTorch has refused something."""
        for index, (expected, value) in enumerate(zip(self.signature.inputs, inputs, strict=False)):
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
    log = _native.take_log()
    if interruption is not None:
        raise interruption from None
    if name:
        kind: type[TrtRuntimeError] = getattr(errors, name)
        message = message.replace(_GIVE_DATA, hint(_GIVE_DATA, "--data PLANS.ptd"))
        return kind(f"{what}: {message}")
    if refusal is not None:
        return InputError(refusal)
    found = "; ".join([str(error) or type(error).__name__, *log.splitlines()[:_LOG_LINES]])
    return ProgramError(f"{what}: expected {expected}, found: {found}")
