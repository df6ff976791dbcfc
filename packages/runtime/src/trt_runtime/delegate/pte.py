"""Where the delegates of a `.pte` and the named data of a `.pte` or `.ptd` are. Nothing is loaded.

ExecuTorch is not needed. Schemas: its `schema/program.fbs` (file identifier ET12; the header before segments is its
`extended_header`, "eh00") and `extension/flat_tensor/serialize/flat_tensor.fbs` (FT01, header "FH01"). Field
numbers below are positions in them.
"""

from __future__ import annotations

import json
import mmap
import os
import stat
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ProgramError
from .flatbuffer import MEND, Table
from .limits import read_limits
from .signature import Signature, read_signature

Result = TypeVar("Result")
Span = tuple[int, int]  # offset in the file, size in bytes

_PROGRAM, _DATA_FILE = b"ET12", b"FT01"
# Compile specs that trt-export writes.
_MUTATED_INPUTS, _INPUT_NAMES, _INPUT_SIZES = "mutated_inputs", "input_names", "input_sizes"
_PROGRAM_HEADER = struct.Struct("<4sIQQQ")  # magic, its size, program size, segments: start, size
_DATA_HEADER = struct.Struct(
    "<4sIQQQQ"
)  # magic, its size, flatbuffer: start, size, segments: the same


@dataclass(frozen=True, slots=True)
class Delegate:
    """A delegate of a method; its payload is ``size`` bytes at ``offset`` of the file."""

    method: str
    backend: str
    offset: int
    size: int


def map_file(path: str | os.PathLike[str]) -> memoryview:
    """Map a file to read it; it is unmapped when the last view of it is gone.

    Raises:
        OSError: it cannot be read.
        ProgramError: it is empty, or no regular file.

    """
    check_regular(path)
    with Path(path).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise ProgramError(f"{path}: expected a .pte or .ptd, found an empty file")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def check_regular(path: str | os.PathLike[str]) -> None:
    """Look before opening: a pipe would wait for a writer, and a device has no end.

    Raises:
        OSError: there is no such file.
        ProgramError: it is no regular file.

    """
    mode = Path(path).stat().st_mode
    if not stat.S_ISREG(mode):
        kind = "a directory" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        raise ProgramError(f"{path}: expected a regular file, found {kind}; name a .pte or .ptd")


def read_delegates(data: memoryview) -> tuple[Delegate, ...]:
    """Return every delegate of every method, in the order of the file.

    Args:
        data: a whole `.pte`, best mapped.

    Raises:
        ProgramError: not a `.pte`, of another version of the format, cut off, or damaged.

    """
    return tuple(_guarded(data, ".pte", _PROGRAM, _delegates))


def read_methods(data: memoryview) -> dict[str, Signature]:
    """Return what every method takes and gives, by its name.

    Args:
        data: a whole `.pte`, best mapped.

    Raises:
        ProgramError: as `read_delegates`; or it has no method, or one that plans more memory than this machine has.

    """
    return _guarded(data, ".pte", _PROGRAM, _methods)


def read_named_data(data: memoryview) -> dict[str, Span]:
    """Return where each piece of named data is, by its key.

    Args:
        data: a whole `.pte` or `.ptd`, best mapped.

    Raises:
        ProgramError: as `read_delegates`.

    """
    if bytes(data[4:8]) == _PROGRAM:
        return _guarded(data, ".pte", _PROGRAM, _named_data_of_program)
    return _guarded(data, ".ptd", _DATA_FILE, _named_data_of_data_file)


def _guarded(
    data: memoryview, kind: str, identifier: bytes, read: Callable[[memoryview], Result]
) -> Result:
    if bytes(data[4:8]) != identifier:
        raise ProgramError(_other_kind(data, kind, identifier))
    try:
        return read(data)
    # What Python and flatbuffers' reader raise for offsets that point anywhere.
    except (struct.error, IndexError, TypeError, ValueError, OverflowError) as error:
        raise ProgramError(
            f"expected a whole {kind}, found bad offsets ({error}); {MEND}"
        ) from None


def _other_kind(data: memoryview, kind: str, identifier: bytes) -> str:
    """What a file is that does not begin as it should, and what mends that."""
    start = bytes(data[:8])
    if start.startswith(b"PK"):
        return (
            f"expected a {kind}, found a zip; if it is a .pt2, make a .pte of it: trt-export build MODEL.pt2 "
            "-o MODEL.pte"
        )
    if start[4:6] == identifier[:2]:
        return (
            f"expected a {kind} of the version {identifier!r}, found {start[4:]!r}; install a trt-runtime that reads "
            "it: pip install -U trt-runtime"
        )
    if start[4:] in (_PROGRAM, _DATA_FILE):
        return f"expected a {kind}, found a {'.ptd' if kind == '.pte' else '.pte'}; name the other file"
    return (
        f"expected a {kind} with {identifier!r} at byte 4, found {start[4:]!r}; name another file"
    )


def _program(data: memoryview) -> tuple[Table, list[Span]]:
    """The root table and the segments."""
    program_size, base = len(data), 0
    if bytes(data[8:12]) == b"eh00":  # a program without segments has no such header
        _, _, program_size, base, size = _PROGRAM_HEADER.unpack_from(data, 8)
        if max(program_size, base + size) > len(data):
            raise ProgramError(
                f"expected {max(program_size, base + size)} bytes, as its header says, found {len(data)}; {MEND}"
            )
    program = Table(data[:program_size], struct.unpack_from("<I", data)[0])
    return program, [_segment(table, base) for table in program.tables(4)]


def _segment(table: Table, base: int) -> Span:
    return base + table.uint64(0), table.uint64(1)


def _delegates(data: memoryview) -> list[Delegate]:
    program, segments = _program(data)
    inline = [table.bytes_at(0) for table in program.tables(3)]
    found = []
    for method in program.tables(1):
        for delegate in method.tables(7):
            reference = delegate.table(1)
            places = segments if reference.int8(0) == 1 else inline
            span = _at(data, places, reference.uint32(1))
            found.append(Delegate(method.text(0), delegate.text(0), *span))
    return found


def _methods(data: memoryview) -> dict[str, Signature]:
    program, _ = _program(data)
    methods = program.tables(1)
    if not methods:
        raise ProgramError(f"expected a program with a method, found none; {MEND}")
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = {}
    mutations = _of_methods(data, methods, _MUTATED_INPUTS, _pairs)
    names = _of_methods(data, methods, _INPUT_NAMES, _names)
    limits = _of_methods(data, methods, _INPUT_SIZES, read_limits)
    for method in methods:
        name, planned = method.text(0), method.int64s(8)
        if min(planned, default=0) < 0 or sum(planned) > memory:
            raise ProgramError(
                f"method {name!r}: expected planned memory that this machine has ({memory} bytes), found "
                f"{max(planned, key=abs)} bytes; the file is damaged (write it again), or made for larger inputs"
            )
        try:
            found[name] = read_signature(
                method, mutations.get(name, ()), names.get(name, ()), limits.get(name, ())
            )
        except ProgramError as error:
            raise ProgramError(f"method {name!r}: {error}") from None
    return found


def _of_methods(
    data: memoryview, methods: Sequence[Table], key: str, read: Callable[[Any], Result]
) -> dict[str, Result]:
    """Read what the compile spec `key` of a delegate of ours says, by method.

    trt-export writes it into the first delegate of each method, for all methods of the file.
    """
    for method in methods:
        for delegate in method.tables(7):
            for spec in delegate.tables(2):
                if spec.text(0) == key:
                    start, size = spec.bytes_at(1)
                    return _parse(key, bytes(data[start : start + size]), read)
    return {}


def _parse(key: str, text: bytes, read: Callable[[Any], Result]) -> dict[str, Result]:
    try:
        return {name: read(value) for name, value in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError, IndexError, KeyError, RecursionError):
        raise ProgramError(
            f"expected {key} as JSON by method, found {text[:80]!r}; {MEND}"
        ) from None


def _pairs(value: Any) -> tuple[tuple[int, int], ...]:
    pairs = tuple((output, source) for output, source in value)
    if not all(type(index) is int for pair in pairs for index in pair):
        raise TypeError
    return pairs


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return tuple(value)


def _named_data_of_program(data: memoryview) -> dict[str, Span]:
    program, segments = _program(data)
    return {table.text(0): _at(data, segments, table.uint32(1)) for table in program.tables(7)}


def _named_data_of_data_file(data: memoryview) -> dict[str, Span]:
    _, _, start, size, base, _ = _DATA_HEADER.unpack_from(data, 8)
    root = Table(data[: start + size], struct.unpack_from("<I", data)[0])
    segments = [_segment(table, base) for table in root.tables(1)]
    return {table.text(0): _at(data, segments, table.uint32(1)) for table in root.tables(2)}


def _at(data: memoryview, items: Sequence[Span], index: int) -> Span:
    if index >= len(items):
        raise ProgramError(f"expected at most {len(items)} payloads, found number {index}; {MEND}")
    offset, size = items[index]
    if offset + size > len(data):
        raise ProgramError(
            f"expected {offset + size} bytes or more, found {len(data)} in the file; {MEND}"
        )
    return offset, size
