"""A file that can be written to without changing it."""

from __future__ import annotations

import io
import os
from typing import Any


class Overlay(io.RawIOBase):
    """A part of a file, to be read; what is written is kept in memory instead.

    For zip archives, whose directory comes last: all that follows the first place written to is kept too, so write
    near the end.
    """

    def __init__(self, file: int, offset: int, size: int) -> None:
        """Show `size` bytes of the open file `file` from `offset` on; the file stays the caller's to close."""
        super().__init__()
        self._file = file
        self._offset = offset
        self._size = size  # of what is read from the file
        self._tail = bytearray()  # what comes after it
        self._position = 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def writable(self) -> bool:
        """It can be written to, in memory."""
        return True

    def seekable(self) -> bool:
        """It has a position that can be set."""
        return True

    def tell(self) -> int:
        """The position, from the part's beginning."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        if start + offset < 0:
            raise OSError(f"expected a place in the file, found {start + offset}")
        self._position = start + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Fill the whole buffer unless the end comes first: torch's reader does not ask again."""
        view = memoryview(buffer).cast("B")
        done = 0
        while done < len(view) and (count := self._read_some(view[done:])):
            self._position += count
            done += count
        return done

    def _read_some(self, view: memoryview) -> int:
        if self._position < self._size:
            rest = self._size - self._position
            return os.preadv(self._file, [view[:rest]], self._offset + self._position)
        start = self._position - self._size
        found = self._tail[start : start + len(view)]
        view[: len(found)] = found
        return len(found)

    def write(self, data: Any) -> int:
        """Put bytes over what is there."""
        view = memoryview(data).cast("B")
        self._keep_from(self._position)
        start = self._position - self._size
        self._tail[start : start + len(view)] = view
        self._position += len(view)
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        """Have it end at a place, or here."""
        end = self._position if size is None else size
        self._keep_from(end)
        del self._tail[end - self._size :]
        return end

    @property
    def _end(self) -> int:
        return self._size + len(self._tail)

    def _keep_from(self, position: int) -> None:
        """Have what comes at and behind a place in memory."""
        if position > self._end:
            raise OSError(f"expected a place in the file or at its end, found {position}")
        if position < self._size:
            kept = os.pread(self._file, self._size - position, self._offset + position)
            self._tail[:0] = kept
            self._size = position
