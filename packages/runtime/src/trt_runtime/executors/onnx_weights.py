"""Takes the large weights out of a serialized ONNX model, so that they can stay where they are.

`onnx` is no dependency of the runtime, and a parser of protobuf would copy what is to be left alone. So the wire format
is walked: names and sizes are read, weights are not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .wire import BYTES, Field, WireError, WireReader, bytes_field, head, varint_field

# Below this a copy costs less than the care of it; and shapes, axes and scales, which ONNX Runtime reads, are there.
LARGE = 4096

# TensorProto.DataType: numpy's name and the size of it. Types that numpy lacks stay in the model.
TYPES: Mapping[int, tuple[str, int]] = {
    1: ("float32", 4),
    2: ("uint8", 1),
    3: ("int8", 1),
    4: ("uint16", 2),
    5: ("int16", 2),
    6: ("int32", 4),
    7: ("int64", 8),
    9: ("bool", 1),
    10: ("float16", 2),
    11: ("float64", 8),
    12: ("uint32", 4),
    13: ("uint64", 8),
}

# onnx.proto: numbers of fields
_MODEL_GRAPH = 7
_INITIALIZER = 5
_DIMS, _TYPE, _NAME, _RAW, _DOC, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 12, 13, 14
_KEY, _VALUE = 1, 2
_IN_A_FILE = 1  # TensorProto.DataLocation.EXTERNAL
_HIGHEST_RANK = 64


class Weight(NamedTuple):
    """An initializer whose ``nbytes`` bytes are at ``start`` of the model."""

    name: str
    data_type: int
    shape: tuple[int, ...]
    start: int
    nbytes: int


class DetachedModel(NamedTuple):
    """A model that says of some of its weights that they are in an external file."""

    model: bytes
    weights: list[Weight]
    kept: int
    """Bytes of the large weights that are still in the model."""


class _Tensor(NamedTuple):
    where: Field
    name: bytes
    raw: Field
    weight: Weight | None  # None if it cannot be taken out whatever reads it


@dataclass
class _Graph:
    """Initializers of the graph; a model may have it in several pieces, which protobuf joins."""

    large: list[_Tensor] = field(default_factory=list)
    names: Counter[bytes] = field(default_factory=Counter)


def detach_weights(model: memoryview, location: str) -> DetachedModel:
    """Take out the large weights that lie at multiples of their numbers' size.

    Args:
        model: a serialized ModelProto.
        location: the name of the external file to refer to, which has the bytes of ``model``.

    Raises:
        WireError: it is no such model, or one with too many parts to look at.

    """
    reader = WireReader(model)
    graph = _Graph()
    parts: list[tuple[Field, list[_Tensor]]] = []
    for part in reader.fields(0, len(model)):
        before = len(graph.large)
        if part.tag == _MODEL_GRAPH:
            for item in _messages(reader, part):
                if item.tag == _INITIALIZER:
                    _read_initializer(reader, item, graph)
        parts.append((part, graph.large[before:]))
    taken = [
        tensor
        for tensor in graph.large
        if tensor.weight
        and graph.names[tensor.name] == 1
        and tensor.weight.start % TYPES[tensor.weight.data_type][1] == 0
    ]
    chosen = {tensor.where.start for tensor in taken}
    pieces: list[memoryview | bytes] = []
    for part, tensors in parts:
        pieces += _part(model, part, [t for t in tensors if t.where.start in chosen], location)
    sizes = {tensor.where.start: tensor.raw.end - tensor.raw.value for tensor in graph.large}
    return DetachedModel(
        b"".join(pieces),
        [tensor.weight for tensor in taken if tensor.weight],
        sum(size for start, size in sizes.items() if start not in chosen),
    )


def _messages(reader: WireReader, where: Field) -> Iterator[Field]:
    if where.wire_type != BYTES:
        raise WireError(f"expected a message at {where.start}, found wire type {where.wire_type}")
    return reader.fields(where.value, where.end)


def _read_initializer(reader: WireReader, where: Field, graph: _Graph) -> None:
    dims: list[int] = []
    data_type, name = 0, b""
    raws: list[Field] = []
    plain = True
    for item in _messages(reader, where):
        if item.tag == _DIMS:
            dims += reader.varints(item)
        elif item.tag == _TYPE:
            data_type = item.number
        elif item.tag == _NAME:
            name = reader.bytes(item)
        elif item.tag == _RAW and item.wire_type == BYTES:
            raws.append(item)
        elif item.tag != _DOC:  # values of another form, segments, a file: whatever it is, not ours
            plain = False
    graph.names[name] += 1
    for raw in raws[-1:]:  # of several the last one counts
        size = raw.end - raw.value
        if size < LARGE:
            continue
        weight = None
        # Sizes below 0 are written as numbers of 64 bits, so their product is not the size.
        simple = plain and len(raws) == 1 and data_type in TYPES and len(dims) <= _HIGHEST_RANK
        if simple and math.prod(dims) * TYPES[data_type][1] == size:
            weight = Weight(_text(name), data_type, tuple(dims), raw.value, size)
        graph.large.append(_Tensor(where, name, raw, weight))


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise WireError(f"expected a name in UTF-8, found {name!r}") from error


def _part(
    model: memoryview, part: Field, taken: list[_Tensor], location: str
) -> list[memoryview | bytes]:
    """Return a part of the model with other tensors in place of those that are taken out."""
    if not taken:
        return [model[part.start : part.end]]
    pieces: list[memoryview | bytes] = []
    position = part.value
    for tensor in taken:
        pieces.append(model[position : tensor.where.start])
        others = bytes(model[tensor.where.value : tensor.raw.start])
        others += bytes(model[tensor.raw.end : tensor.where.end])
        others += varint_field(_LOCATION, _IN_A_FILE)
        for key, value in (
            ("location", location),
            ("offset", str(tensor.raw.value)),
            ("length", str(tensor.raw.end - tensor.raw.value)),
        ):
            pair = bytes_field(_KEY, key.encode()) + bytes_field(_VALUE, value.encode())
            others += bytes_field(_EXTERNAL, pair)
        pieces.append(bytes_field(_INITIALIZER, others))
        position = tensor.where.end
    pieces.append(model[position : part.end])
    return [head(_MODEL_GRAPH, sum(map(len, pieces))), *pieces]
