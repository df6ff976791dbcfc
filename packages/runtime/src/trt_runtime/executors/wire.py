"""Protobuf's wire format: where the fields of a message lie, and nothing of what they hold.

https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# What one reader looks at: as much as a model of thirty thousand operators has, and read within seconds.
_MOST_FIELDS = 300_000
_LONGEST_VARINT = 10
_LONGEST_TEXT = 1 << 16


class WireError(ValueError):
    """Bytes that are no protobuf message, or one with too many fields to look at."""


class Field(NamedTuple):
    """A field at ``start:end``, its value at ``value:end``; ``number`` is the value of a varint, else 0."""

    tag: int
    wire_type: int
    start: int
    value: int
    end: int
    number: int


class WireReader:
    """Reads the heads of fields of one buffer; what lies in them is not touched."""

    def __init__(self, data: memoryview) -> None:
        """Read ``data``, which is bytes."""
        self._data = data
        self._left = _MOST_FIELDS

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """Yield the fields of the message at ``start:end``; raises WireError."""
        position = start
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise WireError(f"more than {_MOST_FIELDS} fields")
            key, value = self._varint(position, end)
            number, wire_type = 0, key & 7
            if wire_type == BYTES:
                size, value = self._varint(value, end)
                after = value + size
            elif wire_type == VARINT:
                number, after = self._varint(value, end)
            elif wire_type == FIXED32:
                after = value + 4
            elif wire_type == FIXED64:
                after = value + 8
            else:  # the groups of long ago
                raise WireError(f"wire type {wire_type} at {position}")
            if after > end:
                raise WireError(f"field at {position} ends at {after}, beyond {end}")
            yield Field(key >> 3, wire_type, position, value, after, number)
            position = after

    def bytes(self, field: Field) -> bytes:
        """Return what a field holds, a name or the like; raises WireError."""
        if field.wire_type != BYTES or field.end - field.value > _LONGEST_TEXT:
            raise WireError(f"no name at {field.start}")
        return self._data[field.value : field.end].tobytes()

    def varints(self, field: Field) -> list[int]:
        """Return the numbers of a repeated field, packed or not; raises WireError."""
        if field.wire_type == VARINT:
            return [field.number]
        if field.wire_type != BYTES:
            raise WireError(f"wire type {field.wire_type} of a number at {field.start}")
        numbers, position = [], field.value
        while position < field.end:
            self._left -= 1
            if self._left < 0:
                raise WireError(f"more than {_MOST_FIELDS} fields")
            number, position = self._varint(position, field.end)
            numbers.append(number)
        return numbers

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        number = shift = 0
        for index in range(position, min(end, position + _LONGEST_VARINT)):
            byte = self._data[index]
            number |= (byte & 127) << shift
            if byte < 128:
                return number, index + 1
            shift += 7
        raise WireError(f"no number at {position}")


def varint(number: int) -> bytes:
    """Return a number as it is written."""
    septets = bytearray()
    while number > 127:
        septets.append(number & 127 | 128)
        number >>= 7
    septets.append(number)
    return bytes(septets)


def head(tag: int, size: int) -> bytes:
    """Return what is before a value of ``size`` bytes."""
    return varint(tag << 3 | BYTES) + varint(size)


def bytes_field(tag: int, value: bytes) -> bytes:
    """Return a field that holds bytes."""
    return head(tag, len(value)) + value


def varint_field(tag: int, number: int) -> bytes:
    """Return a field that holds a number."""
    return varint(tag << 3 | VARINT) + varint(number)
