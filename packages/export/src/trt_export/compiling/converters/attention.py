"""Attention with a mask: a row that may attend to nothing gives 0."""

import math
from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import Converter, Wrappers, constant, op

aten = torch.ops.aten


def attention(upstream: Converter) -> Converter:
    """Return a converter of `scaled_dot_product_attention`.

    PyTorch gives 0 for a row that may attend to nothing. torch.onnx's converter gives the mean of all values for a
    boolean mask, since it fills in the lowest finite number, and NaN for a mask of -infinity. It also takes the root
    of a negative scale. Without a mask, and with the causal one, its translation is used as it is.
    """

    def convert(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: Any = None,
        enable_gqa: bool = False,
    ) -> Any:
        query, scale = _positive(query, scale)
        mask = None if attn_mask is None else _added(attn_mask, query.dtype)
        result = upstream(
            query, key, value, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
        )
        return result if mask is None else _without_empty_rows(result, mask)

    return convert


def attention_for_cpu(upstream: Converter) -> Converter:
    """Return a converter of the operator that `scaled_dot_product_attention` becomes on a CPU, with two results."""

    def convert(
        query: Any,
        key: Any,
        value: Any,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        attn_mask: Any = None,
        scale: Any = None,
    ) -> Any:
        query, scale = _positive(query, scale)
        mask = None if attn_mask is None else _added(attn_mask, query.dtype)
        result, logsumexp = upstream(
            query, key, value, dropout_p, is_causal, attn_mask=mask, scale=scale
        )
        return (result if mask is None else _without_empty_rows(result, mask)), logsumexp

    return convert


def _positive(query: Any, scale: Any) -> tuple[Any, Any]:
    """Move the sign of the scale to the query."""
    if not isinstance(scale, (int, float)) or scale >= 0:
        return query, scale
    negated = op.Neg(query)
    negated.shape, negated.dtype = query.shape, query.dtype
    return negated, -scale


def _added(mask: Any, dtype: ir.DataType) -> Any:
    """Return what is added to the scores: a boolean mask as 0 and -infinity."""
    if mask.dtype != ir.DataType.BOOL:
        return mask
    added = op.Where(mask, constant(0.0, dtype), constant(-math.inf, dtype))
    added.shape, added.dtype = mask.shape, dtype
    return added


def _without_empty_rows(result: Any, mask: Any) -> Any:
    """Put 0 where the softmax was over -infinity alone. Only the mask is looked at, so that attention fuses."""
    last = constant([-1], ir.DataType.INT64)
    highest = op.ReduceMax(mask, last, keepdims=1)
    empty = op.Equal(highest, constant(-math.inf, mask.dtype))
    return op.Where(empty, constant(0.0, mask.dtype), result)


WRAPPERS: Wrappers = {
    aten.scaled_dot_product_attention.default: attention,
    aten._scaled_dot_product_flash_attention_for_cpu.default: attention_for_cpu,
}
