"""Reading flatbuffers by the position of a field in its schema; every offset is checked."""

from __future__ import annotations

import struct
from typing import Any

from flatbuffers import number_types
from flatbuffers.table import Table as FlatbuffersTable

from ..errors import ProgramError

MEND = "it is damaged or cut off: write it again"


class Table:
    """A table whose fields are addressed by their position in the schema, from 0."""

    def __init__(self, data: memoryview, position: int) -> None:
        self._data = data
        self._table = FlatbuffersTable(data, position)

    def uint64(self, field: int) -> int:
        """An unsigned number of 64 bits; 0 if it is not there."""
        return self._number(field, number_types.Uint64Flags)

    def uint32(self, field: int) -> int:
        """An unsigned number of 32 bits; 0 if it is not there."""
        return self._number(field, number_types.Uint32Flags)

    def int32(self, field: int) -> int:
        """A number of 32 bits; 0 if it is not there."""
        return self._number(field, number_types.Int32Flags)

    def int8(self, field: int) -> int:
        """A number of 8 bits; 0 if it is not there."""
        return self._number(field, number_types.Int8Flags)

    def int64(self, field: int) -> int:
        """A number of 64 bits; 0 if it is not there."""
        return self._number(field, number_types.Int64Flags)

    def float64(self, field: int) -> float:
        """A floating-point number of 64 bits; 0 if it is not there."""
        offset = self._offset(field)
        if not offset:
            return 0.0
        return float(self._table.Get(number_types.Float64Flags, self._table.Pos + offset))

    def text(self, field: int) -> str:
        """A text; empty if it is not there."""
        start, size = self.bytes_at(field)
        return bytes(self._data[start : start + size]).decode(errors="replace")

    def table(self, field: int) -> Table:
        """A table; raises ProgramError if it is not there."""
        offset = self._offset(field)
        if not offset:
            raise ProgramError(f"expected a table in field {field}, found none; {MEND}")
        return Table(self._data, self._table.Indirect(self._table.Pos + offset))

    def optional_table(self, field: int) -> Table | None:
        """A table; None if it is not there."""
        return self.table(field) if self._offset(field) else None

    def tables(self, field: int) -> list[Table]:
        """A list of tables; raises ProgramError if it is longer than the file."""
        start, count = self._vector(field, 4)
        return [Table(self._data, self._table.Indirect(start + 4 * i)) for i in range(count)]

    def count(self, field: int) -> int:
        """How many tables are in a list; raises ProgramError if it is longer than the file."""
        return self._vector(field, 4)[1]

    def table_at(self, field: int, index: int) -> Table:
        """One table of a list; raises ProgramError if it has no such one."""
        start, count = self._vector(field, 4)
        if not 0 <= index < count:
            raise ProgramError(f"expected one of {count} items, found number {index}; {MEND}")
        return Table(self._data, self._table.Indirect(start + 4 * index))

    def int32s(self, field: int) -> tuple[int, ...]:
        """A list of numbers of 32 bits; raises ProgramError if it is longer than the file."""
        start, count = self._vector(field, 4)
        return struct.unpack_from(f"<{count}i", self._data, start) if count else ()

    def int64s(self, field: int) -> tuple[int, ...]:
        """A list of numbers of 64 bits; raises ProgramError if it is longer than the file."""
        start, count = self._vector(field, 8)
        return struct.unpack_from(f"<{count}q", self._data, start) if count else ()

    def bytes_at(self, field: int) -> tuple[int, int]:
        """Where the bytes of a vector begin, and how many there are; raises ProgramError."""
        return self._vector(field, 1)

    def _number(self, field: int, flags: Any) -> int:
        offset = self._offset(field)
        return int(self._table.Get(flags, self._table.Pos + offset)) if offset else 0

    def _vector(self, field: int, item_size: int) -> tuple[int, int]:
        offset = self._offset(field)
        if not offset:
            return 0, 0
        start, count = self._table.Vector(offset), self._table.VectorLen(offset)
        if start + count * item_size > len(self._data):
            raise ProgramError(f"expected {count} items at byte {start}, found fewer; {MEND}")
        return start, count

    def _offset(self, field: int) -> int:
        return int(self._table.Offset(4 + 2 * field))
