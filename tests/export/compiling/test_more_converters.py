"""Converters of our own: clipping, exponentials, scattering and comparisons."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from trt_export.compiling import CompileReport, compile
from trt_export.errors import NothingToCompileError

from .test_converters import FLOATS, INF, INTEGERS, NAN, Function, assert_same, compiled


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_clipping_at_one_end_keeps_infinity_at_the_other(dtype: torch.dtype) -> None:
    """torch.onnx's gives the largest finite number."""
    functions: dict[str, Function] = {
        "clamp_max": lambda x: torch.clamp_max(x, 3),
        "clamp_min": lambda x: torch.clamp_min(x, -2.5),
        "max": lambda x: x.clamp(max=0.5),
        "min": lambda x: x.clamp(min=0.5),
        "tensor": lambda x: torch.clamp(x, max=torch.ones((), dtype=dtype)),
        "both": lambda x: x.clamp(-1, 1),
    }
    x = torch.tensor([INF, -INF, NAN, 0.0, 5.0, -5.0], dtype=dtype)
    assert_same(functions, (torch.rand(6, dtype=dtype),), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_exponentials_neither_overflow_nor_cancel(dtype: torch.dtype) -> None:
    """torch.onnx's: log1p(1e-9) is 0, log_sigmoid(-20) and logaddexp(100, 100) are infinite."""
    functions: dict[str, Function] = {
        "log1p": lambda x, y: torch.log1p(x),
        "expm1": lambda x, y: torch.expm1(x),
        "log_sigmoid": lambda x, y: functional.logsigmoid(x),
        "logaddexp": torch.logaddexp,
        "logaddexp2": torch.logaddexp2,
        "xlogy": torch.xlogy,
        "sinc": lambda x, y: torch.sinc(x),
    }
    numbers = [0.0, 1e-4, -1e-4, 1e-3, -0.5, 2.0, -20.0, 100.0, 2000.0, INF, -INF, NAN]
    count = len(numbers)
    x = torch.tensor(numbers, dtype=dtype).repeat_interleave(count)
    y = torch.tensor(numbers, dtype=dtype).repeat(count)
    rtol = {torch.float16: 2e-3, torch.float32: 3e-6, torch.float64: 1e-13}[dtype]
    example = (torch.rand_like(x) + 0.5, torch.rand_like(x) + 0.5)
    found = compiled(lambda a, b: tuple(f(a, b) for f in functions.values()), *example)(x, y)
    for (name, function), one in zip(functions.items(), found, strict=True):
        torch.testing.assert_close(
            one, function(x, y), rtol=rtol, atol=1e-12, equal_nan=True, msg=lambda t, n=name: n + t
        )


def test_float64_has_no_detour_over_float32() -> None:
    functions: dict[str, Function] = {
        "celu": lambda x: functional.celu(x, 1.3),
        "gelu": lambda x: functional.gelu(x, approximate="tanh"),
        "isposinf": torch.isposinf,
        "isneginf": torch.isneginf,
    }
    x = torch.tensor([-1.1, -1e-9, 0.3, 1e300, -1e300, INF, -INF], dtype=torch.float64)
    assert_same(functions, (torch.rand(7, dtype=torch.float64),), x, rtol=1e-14)


def test_erfcx_stays_in_pytorch() -> None:
    with pytest.raises(NothingToCompileError, match="ONNX has no erfcx"):
        compiled(torch.special.erfcx, torch.zeros(3))


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_have_angles_and_are_close(dtype: torch.dtype) -> None:
    """torch.onnx's: the angle of -1 is 3, and the relative tolerance of isclose 0."""
    a = torch.tensor([100, 100, -100, 0], dtype=dtype)
    b = torch.tensor([101, 100, -103, 1], dtype=dtype)
    functions: dict[str, Function] = {
        "angle": lambda a, b: torch.angle(a),
        "isclose": lambda a, b: torch.isclose(a, b, rtol=0.02),
    }
    assert_same(functions, (torch.ones_like(a), torch.ones_like(b)), a, b, rtol=1e-6)


def test_any_of_nothing_is_false() -> None:
    """torch.onnx's is True."""
    x = torch.zeros(2, 0)
    assert_same({"any": lambda x: x.any(1), "keepdim": lambda x: x.any(-1, True)}, (x,), x)


def test_a_source_may_be_larger_than_the_index() -> None:
    """ONNX Runtime refuses that when it runs."""
    functions: dict[str, Function] = {
        "scatter": lambda x, index, src: x.scatter(1, index, src),
        "scatter_add": lambda x, index, src: x.scatter_add(1, index, src),
        "amax": lambda x, index, src: x.scatter_reduce(1, index, src, "amax"),
        "without self": lambda x, i, s: x.scatter_reduce(1, i, s, "sum", include_self=False),
    }
    args = torch.zeros(3, 4), torch.tensor([[0], [3]]), torch.arange(12.0).reshape(3, 4)
    assert_same(functions, args, *args)


def test_scattered_means_stay_in_pytorch() -> None:
    """torch.onnx's puts the last of the values there; an index without repetition does not show it."""
    x, index = torch.zeros(1, 4), torch.tensor([[0, 1, 2, 3]])
    with pytest.raises(NothingToCompileError, match="no scattered mean"):
        compiled(
            lambda x, i: torch.scatter_reduce(x, 1, i, x, "mean", include_self=False), x, index
        )


@pytest.mark.parametrize("dtype", FLOATS[::2], ids=str)
def test_a_small_tolerance_is_kept(dtype: torch.dtype) -> None:
    """onnxscript's optimizer takes a constant that is converted to another's dtype for 0 too."""
    a = torch.tensor([0.0, 1e-9, 1e-7], dtype=dtype)
    b = torch.tensor([5e-9, 0.0, 0.0], dtype=dtype)
    assert_same({"isclose": torch.isclose}, (a, b), a, b)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int32, torch.int64, torch.bool], ids=str)
def test_extremes_need_no_dimensions(dtype: torch.dtype) -> None:
    """torch.onnx's cannot be called without."""
    functions: dict[str, Function] = {
        "amax": lambda x: x.amax(),
        "amin": lambda x: x.amin(),
        "amax of no dimensions": lambda x: x.amax(()),
        "kept": lambda x: x.amin((), keepdim=True),
        "one": lambda x: x.amax(1, keepdim=True),
        "scalar": lambda x: x[0, 0].amax(),
    }
    x = (torch.arange(12).reshape(3, 4) * 7 % 11).to(dtype)
    assert_same(functions, (torch.ones(3, 4, dtype=dtype),), x)
    assert_same(functions, (torch.ones(3, 4, dtype=dtype),), torch.zeros(3, 4, dtype=dtype))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_sign_is_copied(dtype: torch.dtype) -> None:
    """torch takes it apart into an operator whose dtype it gets wrong."""
    functions: dict[str, Function] = {
        "copysign": torch.copysign,
        "with signbit": lambda x, y: torch.where(torch.signbit(y), torch.copysign(x, y), x),
        "integer": lambda x, y: torch.copysign(torch.ones(6, dtype=torch.int32), y.float()),
        "number": lambda x, y: torch.copysign(x, -2.0),
    }
    x = torch.tensor([1.5, -0.0, 3.0, INF, -INF, NAN], dtype=dtype)
    y = torch.tensor([-0.0, 0.0, INF, -INF, -2.0, 3.0], dtype=dtype)
    assert_same(functions, (torch.rand(6, dtype=dtype), torch.rand(6, dtype=dtype)), x, y)
    zero = compiled(torch.copysign, x, y)(torch.zeros(6, dtype=dtype), y)
    assert torch.equal(zero.signbit(), y.signbit())


def test_new_converters_build_for_tensorrt_rtx() -> None:
    def every(x: Tensor, y: Tensor) -> Any:
        return (
            *(torch.log1p(x), torch.expm1(x), functional.logsigmoid(x), torch.logaddexp(x, y)),
            *(x.clamp(max=1), x.clamp(min=1), torch.sinc(x), torch.xlogy(x, y)),
            torch.isclose(x, y),
        )

    compiled(every, torch.rand(3, 4), torch.rand(3, 4), builder="tensorrt-rtx")


def test_the_report_says_once_what_differs() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.amax(1) + (x * 2).amax(1) + x.amin(0).sum()

    program = torch.export.export(Model(), (torch.rand(3, 4),))
    for builder in ("onnxruntime", "tensorrt-rtx"):
        reports: list[CompileReport] = []
        compile(program, builder=builder, on_report=reports.append)
        measured = builder == "onnxruntime"
        operators = ["aten.amax.default", "aten.amin.default"] if measured else []
        assert list(reports[0].differences) == operators
        assert all("NaN" in text for text in reports[0].differences.values())
