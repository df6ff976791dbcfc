"""What is in a `.pte`: methods, delegates, segments. Nothing is loaded, and payloads are only pointed at.

Schema: `executorch/schema/program.fbs` (file identifier ET12), the header in front of segments:
`executorch/runtime/.../extended_header` ("eh00"). Field numbers below are positions in that schema.
"""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from trt_export.errors import FileFormatError
from trt_export.files.flatbuffer import Table
from trt_export.formats import INPUT_NAMES, MUTATED_INPUTS

Item = TypeVar("Item")

_IDENTIFIER = b"ET12"
_EXTENDED = struct.Struct("<4sIQQQ")
# schema/scalar_type.fbs, in torch's names.
_SCALAR_TYPES = {
    0: "uint8", 1: "int8", 2: "int16", 3: "int32", 4: "int64", 5: "float16", 6: "float32", 7: "float64",
    11: "bool", 12: "qint8", 13: "quint8", 14: "qint32", 15: "bfloat16", 16: "quint4x2", 17: "quint2x4",
    22: "bits16", 23: "float8_e5m2", 24: "float8_e4m3fn", 25: "float8_e5m2fnuz", 26: "float8_e4m3fnuz",
    27: "uint16", 28: "uint32", 29: "uint64",
}  # fmt: skip
# The members of the union KernelTypes, from 1.
_VALUE_KINDS = (
    "none", "null", "int", "bool", "double", "tensor", "string", "int list", "double list", "bool list",
    "tensor list", "optional tensor list",
)  # fmt: skip
_TENSOR = _VALUE_KINDS.index("tensor")
_SHARED_MEMORY = 2
_DYNAMISM = ("static", "bounded", "unbounded")


@dataclass(frozen=True)
class Value:
    """An input or output of a method. `sizes` of a bounded tensor are its upper bounds."""

    kind: str
    dtype: str | None = None
    sizes: tuple[int, ...] | None = None
    shape: str | None = None


@dataclass(frozen=True)
class Delegate:
    """A delegate of a method; its payload is at `offset` of the file."""

    backend: str
    offset: int
    size: int
    inline: bool
    compile_specs: tuple[str, ...]


@dataclass(frozen=True)
class Method:
    """A method with what it takes, gives, and needs of the runtime.

    `input_names` is empty if the file does not have them. `mutated_inputs` has pairs of output and input, `state` the
    offset and name (or nothing) of each tensor in the memory that ExecuTorch's planner gives to buffers that methods
    may share.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operators: tuple[str, ...]
    delegates: tuple[Delegate, ...]
    planned_memory: tuple[int, ...]
    mutated_inputs: tuple[tuple[int, int], ...] = ()
    state: tuple[tuple[int, str], ...] = ()
    input_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Segment:
    """A piece of the file behind the program; `offset` counts from the file's start."""

    offset: int
    size: int


@dataclass(frozen=True)
class NamedData:
    """A piece of data that a backend finds by its key."""

    key: str
    segment: int


@dataclass(frozen=True)
class Pte:
    """The parts of a `.pte` file."""

    program_size: int
    methods: tuple[Method, ...]
    segments: tuple[Segment, ...]
    named_data: tuple[NamedData, ...]


def is_pte(head: bytes | memoryview) -> bool:
    """Whether a file that begins so is an ExecuTorch program, of any version of the format."""
    return len(head) >= 8 and bytes(head[4:6]) == b"ET"


def read_pte(data: memoryview) -> Pte:
    """Read a whole file, best mapped.

    Raises:
        FileFormatError: not a `.pte`, of another version of the format, cut off, or damaged.
    """
    if not is_pte(data):
        raise FileFormatError(
            f"not a .pte: it begins with {bytes(data[:8])!r}, an ExecuTorch program has {_IDENTIFIER!r} at byte 4"
        )
    if bytes(data[4:8]) != _IDENTIFIER:
        raise FileFormatError(
            f"this .pte has the format {bytes(data[4:8])!r}; expected {_IDENTIFIER!r}"
        )
    program_size, base = _extended_header(data)
    program = Table.root(data[:program_size])
    segments = tuple(_segment(table, base, len(data)) for table in program.tables(4))
    inline = [table.span(0) for table in program.tables(3)]
    named = tuple(NamedData(t.string(0), t.scalar(1, "I")) for t in program.tables(7))
    for entry in named:
        _at(segments, entry.segment, "segment")
    methods = tuple(_method(table, segments, inline) for table in program.tables(1))
    mutated, names = _of_methods(list(program.tables(1)))
    methods = tuple(
        replace(
            method,
            mutated_inputs=mutated.get(method.name, ()),
            input_names=names.get(method.name, ()),
        )
        for method in methods
    )
    for method in methods:
        _check_names(method)
    return Pte(program_size, methods, segments, named)


def _extended_header(data: memoryview) -> tuple[int, int]:
    """Size of the program and start of the segments."""
    if len(data) < 8 + _EXTENDED.size or bytes(data[8:12]) != b"eh00":
        return len(data), 0  # A program without segments has no such header.
    _, _, program_size, base, segments_size = _EXTENDED.unpack_from(data, 8)
    if program_size > len(data) or base + segments_size > len(data):
        raise FileFormatError(
            f"the .pte is cut off: its header speaks of {max(program_size, base + segments_size)} bytes,"
            f" the file has {len(data)}"
        )
    return program_size, base


def _segment(table: Table, base: int, file_size: int) -> Segment:
    segment = Segment(base + table.scalar(0, "Q"), table.scalar(1, "Q"))
    if segment.offset + segment.size > file_size:
        raise FileFormatError(
            f"the .pte is cut off: a segment ends at byte {segment.offset + segment.size}, the file at {file_size}"
        )
    return segment


def _method(table: Table, segments: tuple[Segment, ...], inline: list[tuple[int, int]]) -> Method:
    values = list(table.tables(2))
    operators = (".".join(filter(None, (t.string(0), t.string(1)))) for t in table.tables(6))
    return Method(
        name=table.string(0),
        inputs=tuple(_value(_at(values, index, "value")) for index in table.scalars(3, "i")),
        outputs=tuple(_value(_at(values, index, "value")) for index in table.scalars(4, "i")),
        operators=tuple(operators),
        delegates=tuple(_delegate(entry, segments, inline) for entry in table.tables(7)),
        planned_memory=table.scalars(8, "q")[1:],  # Buffer 0 stands for constants.
        state=tuple(place for value in values if (place := _shared_place(value)) is not None),
    )


def _of_methods(
    methods: Sequence[Table],
) -> tuple[dict[str, tuple[tuple[int, int], ...]], dict[str, tuple[str, ...]]]:
    """Mutated inputs and names of inputs, by method; a delegate of ours says it of all methods."""
    specs: dict[str, str] = {}
    for method in methods:
        for delegate in method.tables(7):
            for spec in delegate.tables(2):
                specs.setdefault(spec.string(0), spec.string(1))
    return (
        _by_method(
            specs,
            MUTATED_INPUTS,
            lambda pairs: tuple((int(output), int(source)) for output, source in pairs),
        ),
        _by_method(specs, INPUT_NAMES, _names),
    )


def _by_method(specs: Mapping[str, str], key: str, read: Callable[[Any], Item]) -> dict[str, Item]:
    text = specs.get(key, "{}")
    try:
        return {name: read(value) for name, value in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise FileFormatError(
            f"the .pte is damaged: expected {key} as JSON, found {text!r:.80}"
        ) from None


def _names(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise TypeError
    return tuple(value)


def _check_names(method: Method) -> None:
    names = method.input_names
    if names and (len(names) != len(method.inputs) or len(set(names)) != len(names)):
        raise FileFormatError(
            f"the .pte is damaged: expected {len(method.inputs)} names for the inputs of method {method.name!r},"
            f" found {list(names)}"
        )


def _shared_place(value: Table) -> tuple[int, str] | None:
    """Offset and name of a tensor in the memory for shared buffers."""
    tensor = value.table(1) if value.scalar(0, "B") == _TENSOR else None
    place = None if tensor is None else tensor.table(6)
    if tensor is None or place is None or place.scalar(0, "I") != _SHARED_MEMORY:
        return None
    extra = tensor.table(9)
    name = "" if extra is None else extra.string(1)
    return place.scalar(1, "I") | place.scalar(2, "I") << 32, name


def _delegate(
    table: Table, segments: tuple[Segment, ...], inline: list[tuple[int, int]]
) -> Delegate:
    reference = table.table(1)
    if reference is None:
        raise FileFormatError("the .pte is damaged: a delegate has no payload")
    in_segment, index = reference.scalar(0, "b") == 1, reference.scalar(1, "I")
    if in_segment:
        segment = _at(segments, index, "segment")
        offset, size = segment.offset, segment.size
    else:
        offset, size = _at(inline, index, "payload")
    specs = tuple(spec.string(0) for spec in table.tables(2))
    return Delegate(table.string(0), offset, size, not in_segment, specs)


def _value(table: Table) -> Value:
    kind = table.scalar(0, "B")
    name = _VALUE_KINDS[kind] if kind < len(_VALUE_KINDS) else f"kind {kind}"
    tensor = table.table(1)
    if kind != _TENSOR or tensor is None:
        return Value(name)
    scalar_type, dynamism = tensor.scalar(0, "b"), tensor.scalar(8, "b")
    return Value(
        name,
        _SCALAR_TYPES.get(scalar_type, f"scalar type {scalar_type}"),
        tensor.scalars(2, "i"),
        _DYNAMISM[dynamism] if 0 <= dynamism < len(_DYNAMISM) else f"dynamism {dynamism}",
    )


def _at(items: Sequence[Item], index: int, what: str) -> Item:
    if not 0 <= index < len(items):
        raise FileFormatError(f"the .pte is damaged: it points to {what} {index} of {len(items)}")
    return items[index]
