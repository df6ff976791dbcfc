"""A file for torch's writers, which end the process if writing fails: their destructors write on, and throw."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


@contextmanager
def keeping_errors(file: IO[bytes]) -> Iterator[Any]:
    """Give a file that writes to ``file`` up to the first error, which is raised in the end."""
    kept = _Kept(file)
    try:
        yield kept
    finally:
        if kept.error is not None:
            raise kept.error


class _Kept(io.RawIOBase):
    def __init__(self, file: IO[bytes]) -> None:
        super().__init__()
        self._file = file
        self.error: BaseException | None = None

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        # torch.export.save does this last, and it is only for the caller's sake.
        return offset if self.error is not None else self._file.seek(offset, whence)

    def write(self, data: Any) -> int:
        if self.error is None:
            try:
                self._file.write(data)
            except BaseException as error:  # KeyboardInterrupt too
                self.error = error
        return memoryview(data).nbytes
