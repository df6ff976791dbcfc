"""How every operator that has a converter is called: one or more calls each.

A call gets the operator and the `Values` of a dtype. A dtype that PyTorch refuses is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .values import Values

Call = Callable[[Any, Values], Any]


@dataclass(frozen=True)
class Case:
    """One call of an operator; `what` says of which input a sample of the result is made, "" if of the whole."""

    operator: str
    call: Call
    inputs: tuple[str, ...]
    note: str = ""

    @property
    def overload(self) -> Any:
        """The operator itself."""
        packet, _, overload = self.operator.partition(".")
        return getattr(getattr(torch.ops.aten, packet), overload or "default")

    def __call__(self, given: Values) -> Any:
        return self.call(self.overload, given)


def _each(names: str, call: Call, *inputs: str, note: str = "") -> Iterator[Case]:
    for name in names.split():
        yield Case(name, call, inputs, note)


def cases() -> list[Case]:
    """Return all of them, in the order of the page."""
    return [
        *_elementwise(),
        *_two_operands(),
        *_numbers(),
        *_reductions(),
        *_ordering(),
        *_networks(),
        *_choosing(),
    ]


_UNARY = """
abs acos acosh angle asin asinh atan atanh bitwise_not ceil celu cos cosh deg2rad elu erf erfc exp exp2 expm1 floor
frac gelu hardsigmoid hardswish hardtanh isfinite isinf isnan isneginf isposinf leaky_relu log log10 log1p log2
log_sigmoid logical_not logit mish neg rad2deg reciprocal relu relu6 round rsqrt selu sigmoid sign signbit silu sin
sinc sinh softplus special_erfcx sqrt tan tanh trunc
"""

_BINARY = """
add.Tensor atan2 bitwise_and.Tensor bitwise_or.Tensor bitwise_xor.Tensor copy copysign.Tensor eq.Tensor ge.Tensor
gt.Tensor heaviside isclose le.Tensor logaddexp logaddexp2 logical_and logical_or logical_xor lt.Tensor maximum minimum
mul.Tensor ne.Tensor sub.Tensor xlogy.Tensor equal allclose
"""


def _elementwise() -> Iterator[Case]:
    yield from _each(_UNARY, lambda op, v: op(v.x), "x")
    yield from _each("gelu", lambda op, v: op(v.x, approximate="tanh"), "x", note="tanh")
    yield from _each("logit", lambda op, v: op(v.x, 0.1), "x", note="eps=0.1")
    yield from _each("round.decimals", lambda op, v: op(v.x, decimals=2), "x")
    yield from _each("_prelu_kernel prelu", lambda op, v: op(v.x, v.few[:1]), "x")


def _two_operands() -> Iterator[Case]:
    yield from _each(_BINARY, lambda op, v: op(v.a, v.b), "a", "b")
    yield from _each(
        "div.Tensor floor_divide fmod.Tensor remainder.Tensor",
        lambda op, v: op(v.a, v.divisor),
        *("a", "divisor"),
    )
    for mode in ("floor", "trunc"):
        yield from _each(
            "div.Tensor_mode",
            lambda op, v, mode=mode: op(v.a, v.divisor, rounding_mode=mode),
            *("a", "divisor"),
            note=mode,
        )
        yield from _each(
            "div.Scalar_mode",
            lambda op, v, mode=mode: op(v.x, 3, rounding_mode=mode),
            *("x",),
            note=mode,
        )
    yield from _each("pow.Tensor_Tensor", lambda op, v: op(v.a, v.exponent), "a", "exponent")
    yield from _each(
        "bitwise_left_shift.Tensor bitwise_right_shift.Tensor",
        lambda op, v: op(v.a, v.bits),
        *("a", "bits"),
    )
    yield from _each("addcmul addcdiv", lambda op, v: op(v.a, v.a, v.divisor), "a", "divisor")
    yield from _each("lerp.Scalar", lambda op, v: op(v.a, v.b, 0.25), "a", "b")
    yield from _each("lerp.Tensor", lambda op, v: op(v.a, v.b, v.few[:1]), "a", "b")
    yield from _each("clamp.Tensor", lambda op, v: op(v.a, v.b, v.few[3:]), "a", "b")
    yield from _each("clamp_max.Tensor clamp_min.Tensor", lambda op, v: op(v.a, v.b), "a", "b")
    yield from _each("where.self", lambda op, v: op(v.a > v.b, v.a, v.b), "a", "b")
    yield from _each("mse_loss", lambda op, v: op(v.a, v.b, 0), "a", "b")


def _numbers() -> Iterator[Case]:
    yield from _each(
        """add.Scalar div.Scalar eq.Scalar floor_divide.Scalar fmod.Scalar ge.Scalar gt.Scalar le.Scalar lt.Scalar
        mul.Scalar ne.Scalar remainder.Scalar sub.Scalar clamp_max clamp_min xlogy.Scalar_Other""",
        lambda op, v: op(v.x, 3),
        *("x",),
        note="3",
    )
    yield from _each(
        "add.Scalar mul.Scalar div.Scalar gt.Scalar", lambda op, v: op(v.x, 0.1), "x", note="0.1"
    )
    yield from _each(
        "copysign.Scalar remainder.Scalar fmod.Scalar",
        lambda op, v: op(v.x, -0.3),
        "x",
        note="-0.3",
    )
    yield from _each(
        "bitwise_and.Scalar bitwise_or.Scalar bitwise_xor.Scalar bitwise_left_shift.Tensor_Scalar "
        "bitwise_right_shift.Tensor_Scalar __lshift__.Scalar __rshift__.Scalar",
        lambda op, v: op(v.x, 3),
        *("x",),
        note="3",
    )
    for low, high in ((-1, 2), (None, 2), (-1, None)):
        yield from _each(
            "clamp",
            lambda op, v, low=low, high=high: op(v.x, low, high),
            *("x",),
            note=f"{low}, {high}",
        )
    for exponent in (0.5, -0.5, 2, 3, -1, 0.3, 0):
        yield from _each(
            "pow.Tensor_Scalar", lambda op, v, e=exponent: op(v.x, e), "x", note=str(exponent)
        )
    yield from _each("pow.Scalar", lambda op, v: op(2.0, v.x), "x", note="2.0")
    yield from _each("xlogy.Scalar_Self", lambda op, v: op(2.0, v.x), "x", note="2.0")
    yield from _each("remainder.Scalar_Tensor", lambda op, v: op(7, v.divisor), "divisor", note="7")
    yield from _each("where.ScalarOther", lambda op, v: op(v.x > 0, v.x, 0.1), "x", note="0.1")
    yield from _each("where.ScalarSelf", lambda op, v: op(v.x > 0, 0.1, v.x), "x", note="0.1")
    yield from _each(
        "fake_quantize_per_tensor_affine", lambda op, v: op(v.x, 0.1, 3, -128, 127), "x"
    )


def _reductions() -> Iterator[Case]:
    yield from _each(
        "amax amin all.dims any.dims sum.dim_IntList mean.dim logsumexp linalg_vector_norm",
        lambda op, v: op(v.rows, 2.0, [1]) if "norm" in str(op) else op(v.rows, [1]),
        *("rows",),
    )
    for order in (0, 1, 3, float("inf"), float("-inf"), 0.5):
        yield from _each(
            "linalg_vector_norm",
            lambda op, v, order=order: op(v.rows, order, [1]),
            *("rows",),
            note=f"ord={order}",
        )
    yield from _each(
        "all.dim any.dim argmax argmin cumsum logcumsumexp max.dim min.dim prod.dim_int",
        lambda op, v: op(v.rows, 1),
        *("rows",),
    )
    yield from _each("_softmax _log_softmax", lambda op, v: op(v.rows, 1, False), *("rows",))
    yield from _each(
        "softmax.int log_softmax.int special_softmax special_log_softmax",
        lambda op, v: op(v.rows, 1),
        *("rows",),
    )
    for row in ("few", "nan_row", "large_row"):
        yield from _each(
            "all any max min mean sum prod argmax argmin",
            lambda op, v, row=row: op(getattr(v, row)),
            note=row,
        )
    yield from _each(
        "sum.dim_IntList prod.dim_int all.dim any.dim mean.dim logsumexp linalg_vector_norm",
        lambda op, v: (
            op(v.empty, 2.0, [1])
            if "norm" in str(op)
            else op(
                v.empty, 1 if "dim_int" in str(op) or "all" in str(op) or "any" in str(op) else [1]
            )
        ),
        note="no elements",
    )


def _ordering() -> Iterator[Case]:
    yield from _each("sort", lambda op, v: op(v.rows, 1), "rows")
    yield from _each("sort", lambda op, v: op(v.rows, 1, True), "rows", note="descending")
    yield from _each("topk", lambda op, v: op(v.rows, 2), "rows")
    yield from _each("topk", lambda op, v: op(v.rows, 2, 1, False), "rows", note="smallest")
    yield from _each("max_pool1d", lambda op, v: op(v.rows[:, None], [2]), "rows")
    yield from _each(
        "max_pool2d max_pool2d_with_indices",
        lambda op, v: op(v.rows[:, None, None], [1, 2]),
        *("rows",),
    )
    yield from _each(
        "max_pool3d max_pool3d_with_indices",
        lambda op, v: op(v.rows[:, None, None, None], [1, 1, 2]),
        *("rows",),
    )


def _networks() -> Iterator[Case]:
    yield from _each("avg_pool1d", lambda op, v: op(v.rows[:, None], [2]), "rows")
    yield from _each("avg_pool2d", lambda op, v: op(v.rows[:, None, None], [1, 2]), "rows")
    yield from _each("avg_pool3d", lambda op, v: op(v.rows[:, None, None, None], [1, 1, 2]), "rows")
    yield from _each("mm matmul", lambda op, v: op(v.rows, v.few[:, None].expand(4, 2)), "rows")
    yield from _each("bmm", lambda op, v: op(v.rows[:, None], v.rows[:, :, None]), "rows")
    yield from _each("addmv", lambda op, v: op(v.rows[:, 0], v.rows, v.few), "rows")
    yield from _each("addr", lambda op, v: op(v.rows, v.rows[:, 0], v.few), "rows")
    yield from _each(
        "baddbmm",
        lambda op, v: op(v.rows[:, None], v.rows[:, None], v.few.expand(len(v.rows), 4, 4)),
        "rows",
    )
    yield from _each("addbmm", lambda op, v: op(v.few, v.rows[:2, None], v.few.expand(2, 4, 4)))
    yield from _each("cross", lambda op, v: op(v.rows[:, :3], v.rows[:, 1:], 1), "rows")
    yield from _each("det _linalg_det", lambda op, v: op(v.rows.reshape(-1, 2, 2)), "rows")
    yield from _each("mv", lambda op, v: op(v.rows, v.few), "rows")
    yield from _each("dot", lambda op, v: op(v.few, v.few))
    yield from _each("linear", lambda op, v: op(v.rows, v.few[None].expand(2, 4)), "rows")
    yield from _each(
        "addmm", lambda op, v: op(v.few[:2], v.rows, v.few[:, None].expand(4, 2)), "rows"
    )
    yield from _each(
        "convolution",
        lambda op, v: op(
            v.rows[:, None], v.few[None, None, :2], None, [1], [0], [1], False, [0], 1
        ),
        *("rows",),
    )
    yield from _each("layer_norm", lambda op, v: op(v.rows, [4]), "rows")
    yield from _each("native_layer_norm", lambda op, v: op(v.rows, [4], None, None, 1e-5), "rows")
    yield from _each("group_norm", lambda op, v: op(v.rows[:, :, None], 2), "rows")
    yield from _each("conv1d", lambda op, v: op(v.rows[:, None], v.few[None, None, :2]), "rows")
    yield from _each(
        "instance_norm",
        lambda op, v: op(v.rows[:, None], None, None, None, None, True, 0.1, 1e-5, False),
        *("rows",),
    )
    yield from _each(
        "_native_batch_norm_legit_no_training",
        lambda op, v: op(v.rows, v.few, v.few, v.few, v.few, 0.1, 1e-5)[0],
        *("rows",),
    )
    yield from _each(
        "upsample_bicubic2d", lambda op, v: op(v.rows[:, None, None], [1, 8], False), "rows"
    )
    yield from _each(
        "reflection_pad1d replication_pad1d", lambda op, v: op(v.rows[:, None], [1, 1]), "rows"
    )
    yield from _each("embedding", lambda op, v: op(v.rows, v.index), "rows")
    yield from _each("glu", lambda op, v: op(v.rows, 1), "rows")
    yield from _each(
        "scaled_dot_product_attention",
        lambda op, v: op(v.rows[:, None, None], *[v.few.expand(len(v.rows), 1, 3, 4)] * 2),
        *("rows",),
    )
    yield from _each("upsample_nearest1d", lambda op, v: op(v.rows[:, None], [8]), "rows")
    yield from _each("upsample_linear1d", lambda op, v: op(v.rows[:, None], [8], False), "rows")
    yield from _each(
        "upsample_bilinear2d",
        lambda op, v: op(v.rows[:, None, None], [1, 8], False),
        *("rows",),
    )


def _choosing() -> Iterator[Case]:
    yield from _each("masked_fill.Scalar", lambda op, v: op(v.rows, v.mask, 3), "rows")
    yield from _each("masked_fill.Tensor", lambda op, v: op(v.rows, v.mask, v.few[2]), "rows")
    yield from _each("scatter.value", lambda op, v: op(v.rows, 1, v.index, 3), "rows")
    yield from _each(
        "index_put _unsafe_index_put", lambda op, v: op(v.rows, [v.index[0]], v.few), "rows"
    )
    yield from _each(
        "index_put", lambda op, v: op(v.rows, [v.index[0]], v.few, True), "rows", note="accumulate"
    )
    yield from _each("roll", lambda op, v: op(v.rows, [1], [1]), "rows")
    yield from _each("repeat tile", lambda op, v: op(v.rows, [1, 2]), "rows")
    yield from _each("gather", lambda op, v: op(v.rows, 1, v.index), "rows")
    yield from _each(
        "scatter.src scatter_add", lambda op, v: op(v.rows, 1, v.index[:, :1], v.rows), "rows"
    )
    for how in ("sum", "prod", "amax", "amin", "mean"):
        yield from _each(
            "scatter_reduce.two",
            lambda op, v, how=how: op(v.rows, 1, v.index, v.rows, how),
            *("rows",),
            note=how,
        )
        yield from _each(
            "scatter_reduce.two",
            lambda op, v, how=how: op(v.rows, 1, v.index, v.rows, how, include_self=False),
            *("rows",),
            note=f"{how}, include_self=False",
        )
    yield from _each("gather", lambda op, v: op(v.rows, 1, v.index[:2, :3]), note="a smaller index")
    yield from _each("tril triu", lambda op, v: op(v.rows), "rows")
    yield from _each("nonzero", lambda op, v: op(v.x), "x")
    yield from _each("constant_pad_nd", lambda op, v: op(v.rows, [1, 1], 3), "rows")
    yield from _each("cat", lambda op, v: op([v.rows, v.rows], 1), "rows")
    yield from _each("flip", lambda op, v: op(v.rows, [1]), "rows")
    yield from _each("index_select", lambda op, v: op(v.rows, 1, v.index[0]), "rows")
    for to in (torch.float32, torch.float64, torch.float16, torch.int32, torch.int64, torch.bool):
        yield from _each(
            "_to_copy", lambda op, v, to=to: op(v.x, dtype=to), "x", note=str(to).split(".")[1]
        )
