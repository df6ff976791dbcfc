"""Writes ONNX models without copying their weights: the weights stay in torch's memory until they are written.

`onnx_ir.to_proto` would copy every weight into the protobuf message, and serializing that message copies them again.
Protobuf defines that concatenated messages are merged, so a weight can be appended to the serialized model as a
message of its own: a few header bytes, then the weight's own memory.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from trt_export.builders.weight_bytes import byte_blocks

# Weights up to this size (bytes) may be shape or axis arguments, which parsers want to see as constants.
_SMALL = 1024

# What weights of more than that lie at multiples of, for whoever uses them where they are.
ALIGNMENT = 64

# Field numbers of onnx.proto: ModelProto.graph, GraphProto.initializer, TensorProto.raw_data and doc_string; wire type
# 2 (length).
_GRAPH_TAG = bytes([7 << 3 | 2])
_INITIALIZER_TAG = bytes([5 << 3 | 2])
_RAW_DATA_TAG = bytes([9 << 3 | 2])
_DOC_STRING_TAG = bytes([12 << 3 | 2])

PROTOBUF_LIMIT = 2**31 - 1

EXTERNAL_FILE = "weights"
"""The name by which a model refers to weights that are not in it."""


class OnnxFile:
    """An ONNX model whose weights are written from where they are."""

    def __init__(self, model: ir.Model) -> None:
        self._weights: dict[str, ir.TensorProtocol] = {}
        values = dict(model.graph.initializers)
        for name, value in values.items():
            assert value.const_value is not None
            self._weights[name] = value.const_value
        model.graph.initializers.clear()
        try:
            self._graph: onnx.ModelProto = ir.to_proto(model)
        finally:
            model.graph.initializers.update(values)

    @property
    def weights_size(self) -> int:
        """Bytes of all weights together."""
        return sum(weight.nbytes for weight in self._weights.values())

    @property
    def outputs(self) -> list[str]:
        """Names of the model's outputs, in order."""
        return [str(value.name) for value in self._graph.graph.output]

    @property
    def inner_values(self) -> set[str]:
        """Names of all values that nodes make, outputs among them."""
        return {str(name) for node in self._graph.graph.node for name in node.output if name}

    @property
    def operators(self) -> set[str]:
        """The ONNX operators that the model uses."""
        return {str(node.op_type) for node in self._graph.graph.node}

    def fits(self, limit: int = PROTOBUF_LIMIT) -> bool:
        """Whether the model with its weights has fewer bytes than `limit`: protobuf's messages end at 2 GiB."""
        return self.weights_size + int(self._graph.ByteSize()) + 1024 * len(self._weights) < limit

    def weight(self, name: str) -> np.ndarray:
        """Return a weight, as a view of its memory where that is possible."""
        weight: np.ndarray = self._weights[name].numpy()
        return weight

    def named_node(self, message: str) -> str | None:
        """Return the node that a builder's message speaks of: by name, or by that of a value in brackets or quotes."""
        nodes = self._graph.graph.node
        for node in nodes:
            if re.search(rf"(?<!\w){re.escape(node.name)}(?!\w)", message):
                return str(node.name)
        quoted = set(re.findall(r"[\[('\"]([^\[\]()'\"]+)[\])'\"]", message))
        for side in ("output", "input"):
            for node in nodes:
                if not quoted.isdisjoint(getattr(node, side)):
                    return str(node.name)
        return None

    def producer(self, value: str) -> str | None:
        """Name of the node that makes `value`; None for an input."""
        return next(
            (str(node.name) for node in self._graph.graph.node if value in node.output), None
        )

    def chunks(self) -> Iterator[memoryview]:
        """Yield the self-contained model in consecutive pieces; a contiguous weight is one, a view of its memory."""
        graph = memoryview(self._graph.SerializeToString())
        yield graph
        position = graph.nbytes
        for name, weight in self._weights.items():
            tensor = onnx.TensorProto(
                name=name, data_type=int(weight.dtype), dims=_dims(weight)
            ).SerializeToString()
            head = _before(tensor, weight.nbytes)
            if weight.nbytes > _SMALL:
                # A comment moves it to where it shall lie. Its size is tried: it changes how long other sizes are.
                sizes = itertools.count()
                while (position + len(head)) % ALIGNMENT:
                    comment = b" " * next(sizes)
                    comment = _DOC_STRING_TAG + _varint(len(comment)) + comment
                    head = _before(tensor + comment, weight.nbytes)
            yield memoryview(head)
            yield from byte_blocks(weight)
            position += len(head) + weight.nbytes

    def external_chunks(self) -> tuple[int, Iterator[memoryview]]:
        """Return the model's size without its large weights, and it and them in consecutive pieces.

        The weights, each at a multiple of `ALIGNMENT`, begin at the first one behind the model, to which their offsets
        are relative.
        """
        model, weights = self._external(ALIGNMENT)
        content: bytes = model.SerializeToString()

        def pieces() -> Iterator[memoryview]:
            yield memoryview(content)
            position = len(content)
            for weight in weights:
                if padding := -position % ALIGNMENT:
                    yield memoryview(bytes(padding))
                yield from byte_blocks(weight)
                position += padding + weight.nbytes

        return len(content), pieces()

    def _external(self, alignment: int) -> tuple[onnx.ModelProto, list[ir.TensorProtocol]]:
        """Return a model whose large weights are external data, and these weights in the order of their offsets."""
        model = onnx.ModelProto()
        model.CopyFrom(self._graph)
        weights: list[ir.TensorProtocol] = []
        position = 0
        for name, weight in self._weights.items():
            tensor = model.graph.initializer.add(
                name=name, data_type=int(weight.dtype), dims=_dims(weight)
            )
            if weight.nbytes <= _SMALL:
                tensor.raw_data = b"".join(byte_blocks(weight))
                continue
            position += -position % alignment
            tensor.data_location = onnx.TensorProto.EXTERNAL
            place = {"location": EXTERNAL_FILE, "offset": position, "length": weight.nbytes}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))
            weights.append(weight)
            position += weight.nbytes
        return model, weights

    def output_chunk(self, values: Iterable[str]) -> bytes:
        """Return what makes values outputs of the model when it stands behind its `chunks`."""
        present = set(self.outputs)
        graph = onnx.GraphProto()
        for name in values:
            if name not in present:
                graph.output.add(name=name)
        content: bytes = graph.SerializeToString()
        return _GRAPH_TAG + _varint(len(content)) + content

    def without_weights(self) -> onnx.ModelProto:
        """Return a model of the same nodes whose large weights are inputs: what a check of the nodes needs."""
        model = onnx.ModelProto()
        model.CopyFrom(self._graph)
        for name, weight in self._weights.items():
            if weight.nbytes <= _SMALL:
                model.graph.initializer.append(
                    onnx.TensorProto(
                        name=name,
                        data_type=int(weight.dtype),
                        dims=_dims(weight),
                        raw_data=b"".join(byte_blocks(weight)),
                    )
                )
            else:
                model.graph.input.append(
                    onnx.helper.make_tensor_value_info(name, int(weight.dtype), _dims(weight))
                )
        return model

    def write(self, directory: Path) -> Path:
        """Write `model.onnx` and its weights as external data into `directory`; there is no limit to their size."""
        model, weights = self._external(1)
        with open(directory / EXTERNAL_FILE, "wb") as file:
            for weight in weights:
                file.writelines(byte_blocks(weight))
        path = directory / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path


def _before(tensor: bytes, size: int) -> bytes:
    """Return what stands before the `size` bytes of a tensor: it is a part of the graph that holds nothing else."""
    tensor += _RAW_DATA_TAG + _varint(size)
    initializer = _INITIALIZER_TAG + _varint(len(tensor) + size)
    return _GRAPH_TAG + _varint(len(initializer) + len(tensor) + size) + initializer + tensor


def _dims(weight: ir.TensorProtocol) -> list[int]:
    return list(weight.shape.numpy())


def _varint(number: int) -> bytes:
    return bytes(_septets(number))


def _septets(number: int) -> Iterator[int]:
    while number > 127:
        yield number & 127 | 128
        number >>= 7
    yield number
