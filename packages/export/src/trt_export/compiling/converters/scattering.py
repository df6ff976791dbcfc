"""Scattering: a source that is larger than the index, and means."""

from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    Converter,
    NoExactTranslationError,
    Wrappers,
    constant,
    op,
)

aten = torch.ops.aten


def scatter(upstream: Converter) -> Converter:
    """Return a converter of `scatter` and `scatter_add`; PyTorch reads as much of the source as the index has."""

    def convert(self: Any, dim: int, index: Any, src: Any) -> Any:
        return upstream(self, dim, index, _of_index(src, index))

    return convert


def scatter_reduce(upstream: Converter) -> Converter:
    """Return a converter of `scatter_reduce`. torch.onnx's puts the last of the values where the mean belongs."""

    def convert(
        self: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True
    ) -> Any:
        if reduce == "mean":
            raise NoExactTranslationError("ONNX has no scattered mean")
        return upstream(self, dim, index, _of_index(src, index), reduce, include_self)

    return convert


def _of_index(src: Any, index: Any) -> Any:
    """Return the part of the source that belongs to the index: ONNX wants both of one shape."""
    if not src.shape or src.shape == index.shape:
        return src
    rank = len(src.shape)
    starts, axes = (constant(one, ir.DataType.INT64) for one in ([0] * rank, list(range(rank))))
    part = op.Slice(src, starts, op.Shape(index), axes)
    part.shape, part.dtype = index.shape, src.dtype
    return part


def index_put(upstream: Converter) -> Converter:
    """Return a converter of `index_put`; ONNX's ScatterND takes int64 alone, and PyTorch int32 too."""

    def convert(self: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
        wide = [
            index if index is None or index.dtype != ir.DataType.INT32 else _wide(index)
            for index in indices
        ]
        return upstream(self, wide, values, accumulate)

    return convert


def _wide(index: Any) -> Any:
    made = op.Cast(index, to=ir.DataType.INT64)
    made.shape, made.dtype = index.shape, ir.DataType.INT64
    return made


WRAPPERS: Wrappers = {
    aten.index_put.default: index_put,
    aten._unsafe_index_put.default: index_put,
    aten.scatter.src: scatter,
    aten.scatter_add.default: scatter,
    aten.scatter_reduce.two: scatter_reduce,
}
