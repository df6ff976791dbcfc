"""Reading of flatbuffers with every offset checked, over a buffer that may be a mapped file.

Format: https://flatbuffers.dev/internals/. The generated readers of ExecuTorch live behind an import that takes
seconds and trust the file; this one takes neither the time nor the trust.
"""

import struct
from collections.abc import Iterator

from trt_export.errors import FileFormatError


class Table:
    """A table in a flatbuffer; fields are addressed by their position in the schema, from 0."""

    def __init__(self, buffer: memoryview, position: int) -> None:
        self._buffer = buffer
        self._position = position
        self._vtable = position - self._unpack("<i", position)
        self._vtable_size = self._unpack("<H", self._vtable)
        if self._vtable_size < 4:  # Its own size and that of the table are always in it.
            raise FileFormatError(f"the file is damaged: no table at byte {position}")

    @classmethod
    def root(cls, buffer: memoryview) -> "Table":
        """The root table of a flatbuffer."""
        return cls(buffer, _unpack(buffer, "<I", 0))

    def scalar(self, field: int, kind: str, default: int = 0) -> int:
        """A number; `kind` is its `struct` letter, such as `I` for uint32."""
        position = self._field(field)
        return default if position is None else self._unpack(f"<{kind}", position)

    def string(self, field: int) -> str:
        """Text; empty if the field is not there."""
        start, count = self._vector(field, 1)
        return bytes(self._buffer[start : start + count]).decode(errors="replace")

    def table(self, field: int) -> "Table | None":
        """A table, or None if the field is not there."""
        position = self._field(field)
        return None if position is None else self._follow(position)

    def tables(self, field: int) -> Iterator["Table"]:
        """A vector of tables."""
        start, count = self._vector(field, 4)
        return (self._follow(start + 4 * index) for index in range(count))

    def scalars(self, field: int, kind: str) -> tuple[int, ...]:
        """A vector of numbers; `kind` as for `scalar`."""
        start, count = self._vector(field, struct.calcsize(f"<{kind}"))
        return tuple(struct.unpack_from(f"<{count}{kind}", self._buffer, start))

    def span(self, field: int) -> tuple[int, int]:
        """Start and length in bytes of a vector of bytes."""
        return self._vector(field, 1)

    def _field(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._vtable_size:
            return None
        offset = self._unpack("<H", self._vtable + slot)
        return self._position + offset if offset else None

    def _follow(self, position: int) -> "Table":
        return Table(self._buffer, position + self._unpack("<I", position))

    def _vector(self, field: int, item_size: int) -> tuple[int, int]:
        position = self._field(field)
        if position is None:
            return 0, 0
        position += self._unpack("<I", position)
        count, start = self._unpack("<I", position), position + 4
        if start + count * item_size > len(self._buffer):
            raise FileFormatError(
                f"the file is damaged: {count} items at byte {start} do not fit into {len(self._buffer)} bytes"
            )
        return start, count

    def _unpack(self, kind: str, position: int) -> int:
        return _unpack(self._buffer, kind, position)


def _unpack(buffer: memoryview, kind: str, position: int) -> int:
    # struct counts a negative offset from the end, which is never what a flatbuffer means.
    if position < 0 or position + struct.calcsize(kind) > len(buffer):
        raise FileFormatError(
            f"the file is damaged or cut off: an offset points to byte {position} of {len(buffer)}"
        )
    value: int = struct.unpack_from(kind, buffer, position)[0]
    return value
