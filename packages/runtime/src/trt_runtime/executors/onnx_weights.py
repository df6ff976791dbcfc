"""Takes the large weights out of a serialized ONNX model, so that they can stay where they are.

`onnx` is no dependency of the runtime, and a parser of protobuf would copy what is to be left alone. So the wire format
is walked: names and sizes are read, weights are not.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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
_NODE, _INITIALIZER, _INPUT, _OUTPUT = 1, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_OPERATOR, _NODE_ATTRIBUTE = 1, 2, 4, 5
_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS = 6, 11
_VALUE_NAME = 1
_DIMS, _TYPE, _NAME, _RAW, _DOC, _EXTERNAL, _LOCATION = 1, 2, 8, 9, 12, 13, 14
_KEY, _VALUE = 1, 2
_IN_A_FILE = 1  # TensorProto.DataLocation.EXTERNAL
_DEEPEST = 16  # graphs within graphs
_HIGHEST_RANK = 64

# ONNX Runtime writes the weights of these anew while it optimizes.
_REWRITTEN = frozenset((b"BatchNormalization", b"Conv", b"ConvTranspose"))


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
    """What there is to know of the graph; a model may have it in several pieces, which protobuf joins."""

    large: list[_Tensor] = field(default_factory=list)
    initializers: Counter[bytes] = field(default_factory=Counter)
    nodes: list[tuple[bytes, list[bytes], list[bytes]]] = field(default_factory=list)
    tied: set[bytes] = field(default_factory=set)
    """Names of inputs and outputs, and all that graphs within read."""


def detach_weights(
    model: memoryview, location: str, fits: Callable[[Weight], bool], *, tables_only: bool = False
) -> DetachedModel:
    """Take out the large weights that fit, but for those that ONNX Runtime is known to read while it optimizes.

    Args:
        model: a serialized ModelProto.
        location: the name of the external file to refer to.
        fits: whether a weight can be used where it lies.
        tables_only: take nothing but what rows are looked up in, which no optimization changes.

    Raises:
        WireError: it is no such model, or one with too many parts to look at.

    """
    reader = WireReader(model)
    graph = _Graph()
    parts: list[tuple[Field, list[_Tensor]]] = []
    for part in reader.fields(0, len(model)):
        before = len(graph.large)
        if part.tag == _MODEL_GRAPH:
            _read_graph(reader, part, graph)
        parts.append((part, graph.large[before:]))
    stay = _stay(graph, tables_only=tables_only)
    taken = [
        tensor
        for tensor in graph.large
        if tensor.weight and tensor.name not in stay and fits(tensor.weight)
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


def _read_graph(reader: WireReader, where: Field, graph: _Graph) -> None:
    for item in _messages(reader, where):
        if item.tag == _NODE:
            graph.nodes.append(_read_node(reader, item, graph.tied, 0))
        elif item.tag == _INITIALIZER:
            _read_initializer(reader, item, graph)
        elif item.tag in (_INPUT, _OUTPUT):
            graph.tied.update(
                reader.bytes(name) for name in _messages(reader, item) if name.tag == _VALUE_NAME
            )


def _messages(reader: WireReader, where: Field) -> Iterator[Field]:
    if where.wire_type != BYTES:
        raise WireError(f"expected a message at {where.start}, found wire type {where.wire_type}")
    return reader.fields(where.value, where.end)


def _read_node(
    reader: WireReader, where: Field, tied: set[bytes], depth: int
) -> tuple[bytes, list[bytes], list[bytes]]:
    """Return operator, inputs and outputs; what graphs within it read is added to ``tied``."""
    operator, inputs, outputs = b"", [], []
    for item in _messages(reader, where):
        if item.tag == _NODE_INPUT:
            inputs.append(reader.bytes(item))
        elif item.tag == _NODE_OUTPUT:
            outputs.append(reader.bytes(item))
        elif item.tag == _NODE_OPERATOR:
            operator = reader.bytes(item)
        elif item.tag == _NODE_ATTRIBUTE:
            for value in _messages(reader, item):
                if value.tag in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
                    _read_inner(reader, value, tied, depth + 1)
    return operator, inputs, outputs


def _read_inner(reader: WireReader, where: Field, tied: set[bytes], depth: int) -> None:
    if depth > _DEEPEST:
        raise WireError(f"graphs within graphs, more than {_DEEPEST}")
    for item in _messages(reader, where):
        if item.tag == _NODE:
            tied.update(_read_node(reader, item, tied, depth)[1])
        elif item.tag == _OUTPUT:
            tied.update(
                reader.bytes(name) for name in _messages(reader, item) if name.tag == _VALUE_NAME
            )


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
    graph.initializers[name] += 1
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


def _stay(graph: _Graph, *, tables_only: bool) -> set[bytes]:
    """Names of the initializers that ONNX Runtime may read, or that are no constants."""
    constants = set(graph.initializers) - graph.tied
    used: set[bytes] = set()
    stay = set(graph.tied) | {name for name, count in graph.initializers.items() if count > 1}
    for operator, inputs, outputs in graph.nodes:  # in the order of execution
        used.update(inputs)
        if constants.issuperset(name for name in inputs if name):
            constants.update(outputs)  # it is computed once, when the session is made
            stay.update(inputs)
        elif operator in _REWRITTEN or (tables_only and operator != b"Gather"):
            stay.update(inputs)
    return stay | (set(graph.initializers) - used)


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
            ("offset", "0"),
            ("length", str(tensor.raw.end - tensor.raw.value)),
        ):
            pair = bytes_field(_KEY, key.encode()) + bytes_field(_VALUE, value.encode())
            others += bytes_field(_EXTERNAL, pair)
        pieces.append(bytes_field(_INITIALIZER, others))
        position = tensor.where.end
    pieces.append(model[position : part.end])
    return [head(_MODEL_GRAPH, sum(map(len, pieces))), *pieces]
