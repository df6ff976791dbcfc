"""Grouped matrix products: the layers of a mixture of experts, each row multiplied by the matrix of its own expert."""

from collections.abc import Mapping
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    Converter,
    Converters,
    NoExactTranslationError,
    constant,
    op,
)

_INT64 = ir.DataType.INT64


def grouped_product(
    self: Any, mat2: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Any:
    """Multiply rows, sorted by their groups, by the matrices of these; `offs` has the row at which each group ends.

    torch.onnx's converter takes no `offs`. TensorRT takes no sizes that come from values, so the rows are laid out in
    blocks of equal size, each of one group: with S rows and E groups, blocks of S/E rows, rounded up,
    at most 2 E of them, and never more than S. That takes at most twice the arithmetic of the groups themselves, and
    copies each matrix once per block. Rows behind the last group are 0, as those of transformers are.
    """
    if offs is None:
        return NotImplemented
    if len(self.shape) != 2 or len(mat2.shape) != 3:
        raise NoExactTranslationError("only products of rows with one matrix per group are taken")
    if bias is not None or (out_dtype not in (None, -1) and ir.DataType(out_dtype) != self.dtype):
        raise NoExactTranslationError("only products without bias, in the dtype of the rows")
    zero, one = constant([0], _INT64), constant([1], _INT64)
    rows = op.Shape(self, start=0, end=1)
    groups = op.Shape(mat2, start=0, end=1)
    ends = op.Cast(offs, to=_INT64)
    starts = op.Concat(zero, op.Slice(ends, zero, constant([-1], _INT64), zero), axis=0)

    size = op.Max(op.Div(op.Sub(op.Add(rows, groups), one), groups), one)
    rounded = op.Sub(size, one)
    blocks = op.Div(op.Add(op.Sub(ends, starts), rounded), size)
    block_ends = op.CumSum(blocks, constant(0, _INT64))
    block_starts = op.Sub(block_ends, blocks)
    count = op.Div(op.Add(rows, op.Mul(groups, rounded)), size)

    block = _range(count)
    of_block = _group(block, block_ends, groups)
    first = op.Add(
        op.Gather(starts, of_block),
        op.Mul(op.Sub(block, op.Gather(block_starts, of_block)), size),
    )
    read = op.Add(op.Unsqueeze(first, one), op.Unsqueeze(_range(size), zero))
    laid_out = op.Gather(self, op.Min(read, op.Sub(rows, one)))
    products = op.MatMul(laid_out, _gathered(mat2, of_block))
    length = op.Mul(count, size)
    flat = op.Reshape(products, op.Concat(length, op.Shape(mat2, start=2, end=3), axis=0))

    row = _range(rows)
    of_row = _group(row, ends, groups)
    place = op.Add(
        op.Mul(op.Gather(block_starts, of_row), size), op.Sub(row, op.Gather(starts, of_row))
    )
    result = op.Gather(flat, op.Min(place, op.Sub(length, one)))
    is_behind = op.GreaterOrEqual(row, op.Gather(ends, op.Sub(groups, one)))
    return op.Where(op.Unsqueeze(is_behind, one), constant(0.0, self.dtype), result)


def _range(count: Any) -> Any:
    """Return the integers from 0 below a count, which has one element."""
    zero, one = constant(0, _INT64), constant(1, _INT64)
    return op.Range(zero, op.Squeeze(count, constant([0], _INT64)), one)


def _group(position: Any, ends: Any, groups: Any) -> Any:
    """Return the group that each position is in: the number of groups that end at it or before, the last at most."""
    axis = constant([1], _INT64)
    is_behind = op.GreaterOrEqual(
        op.Unsqueeze(position, axis), op.Unsqueeze(ends, constant([0], _INT64))
    )
    group = op.ReduceSum(op.Cast(is_behind, to=_INT64), axis, keepdims=0)
    return op.Min(group, op.Sub(groups, axis))


def _gathered(matrices: Any, index: Any) -> Any:
    """Take matrices out of a stack; a transposed stack is left as it is, and only what is taken is transposed."""
    producer = matrices.producer()
    if producer is not None and producer.op_type == "Transpose":
        order = producer.attributes["perm"].as_ints()
        if list(order) == [0, 2, 1]:
            return op.Transpose(op.Gather(producer.inputs[0], index), perm=[0, 2, 1])
    return op.Gather(matrices, index)


def _grouped_product_of_transformers(input: Any, weight: Any, offs: Any) -> Any:
    return grouped_product(input, weight, offs)


CONVERTERS: Converters = {torch.ops.aten._grouped_mm.default: grouped_product}

NAMED_CONVERTERS: Mapping[str, Converter] = {
    "transformers::grouped_mm_fallback": _grouped_product_of_transformers
}
"""Of operators that other packages register when they are imported."""
