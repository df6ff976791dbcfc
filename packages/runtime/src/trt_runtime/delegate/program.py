"""`load`: a `.pte` that runs, over ExecuTorch's own runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DelegateNameTakenError, ProgramError
from ..streams import give_streams
from .methods import Method, load_methods
from .pte import map_file, read_delegates, read_methods, read_named_data
from .registration import INLINE_BACKEND_ID, register_delegate
from .signature import Signature

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
        signatures = _read(files)
        _register_for(self._path)
        try:
            self._methods = load_methods(
                self._path, None if data is None else files[1], signatures, verify
            )
        except ProgramError as error:
            raise ProgramError(f"{self._path}: {error}") from None
        except (RuntimeError, MemoryError) as error:
            raise ProgramError(
                f"{' with '.join(map(str, files))}: expected an ExecuTorch program that loads, found: "
                f"{str(error) or type(error).__name__}; write it again"
            ) from error

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods."""
        return tuple(self._methods)

    def run(self, inputs: Sequence[Any], method: str = "forward") -> list[Any]:
        """Run a method; the first run of each loads it, with its engines.

        State that a method mutates (a KV cache) is its own, and kept from run to run for as long as this object lives.
        Methods that were saved with shared buffers (`trt_export.save(..., shared_buffers=...)`) share those.

        If the model writes into an input, that tensor has the new values after the call, as in PyTorch; in the file
        they are outputs (`signature` says which), which are not returned.

        Args:
            inputs: tensors on the CPU (of any strides), ints, floats, bools and None, in the order of the program.
            method: one of `methods`.

        Returns:
            The model's own outputs, tensors of their own memory or numbers.

        Raises:
            ProgramError: no such method, or ExecuTorch cannot load or run it.
            InputError: the inputs are not what the method takes.
            ExecutorUnavailableError, PlanError, RecordError: an engine cannot be loaded here.
            ExecutionError: an engine was run and failed.

        """
        return self._find(method).run(inputs)

    def signature(self, method: str = "forward") -> Signature:
        """Return what a method takes and gives, from the file's tables.

        Raises:
            ProgramError: no such method.

        """
        return self._find(method).signature

    def _find(self, method: str) -> Method:
        found = self._methods.get(method) if isinstance(method, str) else None
        if found is None:
            raise ProgramError(
                f"{self._path}: expected one of the methods {', '.join(self._methods)}, found {method!r}; "
                "name one of them"
            )
        return found

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


def _read(files: Sequence[Path]) -> dict[str, Signature]:
    """Read the tables of the files with a reader that survives damage, and return what each method takes and gives.

    Raises:
        OSError: a file cannot be read.
        ProgramError: one is damaged.

    """
    signatures: dict[str, Signature] = {}
    for index, file in enumerate(files):
        data = map_file(file)
        try:
            if index == 0:
                read_delegates(data)
                signatures = read_methods(data)
            read_named_data(data)
        except ProgramError as error:
            raise ProgramError(f"{file}: {error}") from None
    return signatures


def _register_for(path: Path) -> None:
    """Register the delegate; another library's one matters only to programs that would be given to it."""
    try:
        register_delegate()
    except DelegateNameTakenError:
        if any(item.backend == INLINE_BACKEND_ID for item in read_delegates(map_file(path))):
            raise
