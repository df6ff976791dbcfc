"""Large plans lie in temporary files, which engines map: they take no memory of this process."""

import io
import tempfile
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

_IN_MEMORY = 1 << 20
"""Bytes of the largest plan that is kept in memory instead."""


class PlanFile:
    """A plan in a file without a name, which is deleted when neither this object nor an engine uses it any more."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        weakref.finalize(self, file.close)

    def write(self, write: Callable[[IO[bytes]], None]) -> None:
        """Let `write` fill the file.

        Raises:
            OSError: there is no room for it.
        """
        write(self._file)
        self._file.flush()

    def __fspath__(self) -> str:
        """Return the path by which the file can be opened, as long as this object lives."""
        return f"/proc/self/fd/{self._file.fileno()}"


Plan = bytes | PlanFile


def write_plan(size: int, write: Callable[[IO[bytes]], None]) -> Plan:
    """Return what `write` writes, about `size` bytes.

    It is kept in memory if it is small, or if there is no room for it where temporary files are (TMPDIR).
    """
    if size > _IN_MEMORY:
        with suppress(OSError):
            plan = PlanFile(tempfile.TemporaryFile(prefix="trt-export-"))  # noqa: SIM115  (it closes it)
            plan.write(write)
            return plan
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def take_plan(path: Path) -> Plan:
    """Return the plan in a file, which may be deleted afterwards.

    Raises:
        OSError: it cannot be read.
    """
    file = path.open("rb")
    if file.seek(0, io.SEEK_END) > _IN_MEMORY:
        return PlanFile(file)
    with file:
        file.seek(0)
        return file.read()
