"""Where the delegates of a `.pte` are. Nothing is loaded, and ExecuTorch is not needed.

Schema: ExecuTorch's `schema/program.fbs`, file identifier ET12; the header before segments is its
`extended_header` ("eh00"). Field numbers below are positions in that schema.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from flatbuffers import number_types
from flatbuffers.table import Table

from ..errors import ProgramError

Item = TypeVar("Item")

_IDENTIFIER = b"ET12"
_HEADER = struct.Struct("<4sIQQQ")  # magic, its size, program size, start of segments, their size
_MEND = "it is damaged or cut off: write it again"


@dataclass(frozen=True, slots=True)
class Delegate:
    """A delegate of a method; its payload is ``size`` bytes at ``offset`` of the file."""

    method: str
    backend: str
    offset: int
    size: int


def read_delegates(data: memoryview) -> tuple[Delegate, ...]:
    """Return every delegate of every method, in the order of the file.

    Args:
        data: the whole file, best mapped.

    Raises:
        ProgramError: not a `.pte`, of another version of the format, cut off, or damaged.

    """
    if bytes(data[4:8]) != _IDENTIFIER:
        raise ProgramError(
            f"expected a .pte with {_IDENTIFIER!r} at byte 4, found {bytes(data[4:8])!r}; if it is a .pte of "
            "another version, install a trt-runtime that reads it: pip install -U trt-runtime"
        )
    try:
        return tuple(_delegates(data))
    # What Python and flatbuffers' reader raise for offsets that point anywhere.
    except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ProgramError(f"expected a whole .pte, found bad offsets ({error}); {_MEND}") from None


def _delegates(data: memoryview) -> list[Delegate]:
    program_size, base = len(data), 0
    if bytes(data[8:12]) == b"eh00":  # a program without segments has no such header
        _, _, program_size, base, _ = _HEADER.unpack_from(data, 8)
    program = _Table(data[:program_size], struct.unpack_from("<I", data)[0])
    segments = [
        (
            base + table.number(0, number_types.Uint64Flags),
            table.number(1, number_types.Uint64Flags),
        )
        for table in program.tables(4)
    ]
    inline = [table.bytes_at(0) for table in program.tables(3)]
    found = []
    for method in program.tables(1):
        for delegate in method.tables(7):
            reference = delegate.table(1)
            places = segments if reference.number(0, number_types.Int8Flags) == 1 else inline
            offset, size = _at(places, reference.number(1, number_types.Uint32Flags))
            if offset + size > len(data):
                raise ProgramError(
                    f"expected {offset + size} bytes or more, found {len(data)} in the file; {_MEND}"
                )
            found.append(Delegate(method.text(0), delegate.text(0), offset, size))
    return found


def _at(items: Sequence[Item], index: int) -> Item:
    if index >= len(items):
        raise ProgramError(f"expected at most {len(items)} payloads, found number {index}; {_MEND}")
    return items[index]


class _Table:
    """A table whose fields are addressed by their position in the schema, from 0."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._table = Table(data, position)

    def number(self, field: int, flags: Any) -> int:
        offset = self._offset(field)
        return int(self._table.Get(flags, self._table.Pos + offset)) if offset else 0

    def text(self, field: int) -> str:
        start, size = self.bytes_at(field)
        return bytes(self._data[start : start + size]).decode(errors="replace")

    def table(self, field: int) -> _Table:
        offset = self._offset(field)
        if not offset:
            raise ProgramError(f"expected a table in field {field}, found none; {_MEND}")
        return _Table(self._data, self._table.Indirect(self._table.Pos + offset))

    def tables(self, field: int) -> list[_Table]:
        start, count = self._vector(field, 4)
        return [_Table(self._data, self._table.Indirect(start + 4 * i)) for i in range(count)]

    def bytes_at(self, field: int) -> tuple[int, int]:
        return self._vector(field, 1)

    def _vector(self, field: int, item_size: int) -> tuple[int, int]:
        offset = self._offset(field)
        if not offset:
            return 0, 0
        start, count = self._table.Vector(offset), self._table.VectorLen(offset)
        if start + count * item_size > len(self._data):
            raise ProgramError(f"expected {count} items at byte {start}, found fewer; {_MEND}")
        return start, count

    def _offset(self, field: int) -> int:
        return int(self._table.Offset(4 + 2 * field))
