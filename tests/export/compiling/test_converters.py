"""Converters of our own: each operator at the values where torch.onnx's, or ONNX Runtime's kernel, is wrong.

Programs are exported with ordinary examples, so that verification cannot leave an operator in PyTorch unseen, and then
run with the values in question; nothing may stay in PyTorch unless the test says so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from trt_export.compiling import CompileReport, compile
from trt_export.errors import NothingToCompileError

INF, NAN = float("inf"), float("nan")
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-30, -3.5]
FLOATS = [torch.float32, torch.float16, torch.float64]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64]

Function = Callable[..., Tensor]
sdpa = functional.scaled_dot_product_attention


def compiled(function: Callable[..., Any], *example: Tensor, builder: str = "onnxruntime") -> Any:
    """Compile a function, all of it, and return the module that runs it."""

    class Module(nn.Module):
        def forward(self, *args: Tensor) -> Any:
            return function(*args)

    reports: list[CompileReport] = []
    source = torch.export.export(Module(), example)
    program = compile(source, builder=builder, on_report=reports.append)
    assert [(node.operator, node.reason) for node in reports[0].left_in_pytorch] == []
    return program.module()


def assert_same(
    functions: dict[str, Function], example: tuple[Tensor, ...], *args: Tensor, rtol: float = 0.0
) -> None:
    """Compile the functions as one program and compare every result with PyTorch's; zeros by their sign too."""

    def every(*given: Tensor) -> tuple[Tensor, ...]:
        return tuple(function(*given) for function in functions.values())

    found = compiled(every, *example)(*args)
    for name, one, expected in zip(functions, found, every(*args), strict=True):
        torch.testing.assert_close(
            one,
            expected,
            rtol=rtol,
            atol=rtol,
            equal_nan=True,
            msg=lambda text, n=name: f"{n}: {text}",
        )


@pytest.mark.parametrize("dtype", FLOATS[:2], ids=str)
def test_atan2_of_zeros_infinities_and_nan(dtype: torch.dtype) -> None:
    """torch.onnx's: -pi for atan2(0, -1), 0 for NaN and for infinity over infinity."""
    values = torch.tensor(SPECIAL, dtype=dtype)
    count = len(SPECIAL)
    args = values.repeat_interleave(count), values.repeat(count)
    example = tuple(torch.rand(count**2, dtype=dtype) + 0.5 for _ in range(2))
    assert_same(
        {"atan2": torch.atan2}, example, *args, rtol=2e-3 if dtype == torch.float16 else 1e-6
    )


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_signs(dtype: torch.dtype) -> None:
    """torch.onnx's: signbit(-0.0) is False, heaviside(NaN) 1, angle(NaN) 0; ONNX Runtime's: sign(NaN) is NaN."""
    functions = {
        "signbit": torch.signbit,
        "sign": torch.sign,
        "heaviside": lambda x: torch.heaviside(x, torch.full_like(x, 0.5)),
        "angle": torch.angle,
        "isinf": torch.isinf,
    }
    assert_same(
        functions,
        (torch.rand(len(SPECIAL), dtype=dtype),),
        torch.tensor(SPECIAL, dtype=dtype),
        rtol=1e-6,
    )


def test_large_float64_is_not_infinite() -> None:
    """torch.onnx's looks at float32."""
    x = torch.tensor([1e300, INF], dtype=torch.float64)
    assert_same({"isinf": torch.isinf}, (torch.ones(2, dtype=torch.float64),), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_roots_written_as_powers(dtype: torch.dtype) -> None:
    """ONNX Runtime's: (-inf) ** 0.5 is inf and (-0.0) ** 0.5 is 0.0."""
    functions = {"root": lambda x: x**0.5, "inverse": lambda x: x**-0.5, "cube": lambda x: x**3}
    x = torch.tensor(SPECIAL, dtype=dtype)
    assert_same(functions, (torch.rand(len(SPECIAL), dtype=dtype) + 0.5,), x, rtol=1e-5)
    (root,) = compiled(lambda x: (x**0.5,), torch.ones(1, dtype=dtype))(
        torch.tensor([-0.0], dtype=dtype)
    )
    assert torch.equal(root.signbit(), (torch.tensor([-0.0], dtype=dtype) ** 0.5).signbit())


DIVISIONS: dict[str, Function] = {
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("dtype", [*INTEGERS, torch.uint8], ids=str)
def test_integers_are_divided_exactly(dtype: torch.dtype) -> None:
    """torch.onnx's divides in float32, ONNX Runtime's fmod in float64."""
    limits = torch.iinfo(dtype)
    numbers = [limits.max, limits.max - 1, limits.min, limits.min + 1, 7, limits.max // 2, 0]
    divisors = [1, 2, 3, 5, 7, limits.max]
    if limits.min:
        divisors += [-2, -3, -7]
    a = torch.tensor(numbers, dtype=dtype).repeat_interleave(len(divisors))
    b = torch.tensor(divisors, dtype=dtype).repeat(len(numbers))
    assert_same(DIVISIONS, (torch.full_like(a, 9), torch.full_like(b, 4)), a, b)
    for divisor in (3, -3) if limits.min else (3,):
        functions = {name: lambda x, f=f, d=divisor: f(x, d) for name, f in DIVISIONS.items()}
        assert_same(functions, (torch.full_like(a, 9),), a)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_the_smallest_integer_by_minus_one_does_not_end_the_process(dtype: torch.dtype) -> None:
    """ONNX Runtime's `Div` traps on x86."""
    smallest = torch.tensor([torch.iinfo(dtype).min, 6], dtype=dtype)
    run = compiled(DIVISIONS["trunc"], torch.full_like(smallest, 9), torch.full_like(smallest, 4))
    assert run(smallest, torch.full_like(smallest, -1)).tolist() == [torch.iinfo(dtype).min, -6]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_floats_are_divided_as_pytorch_rounds(dtype: torch.dtype) -> None:
    """torch.onnx's: 1.0 // 0.1 is 10, and a remainder by infinity NaN."""
    a = torch.tensor([1.0, 5.5, -5.5, INF, 1, -1, 0, 7, -7, -0.0, NAN], dtype=dtype)
    b = torch.tensor([0.1, -2, 2, 1, INF, INF, 0, 0, 3, 1, 1], dtype=dtype)
    rtol = 1e-3 if dtype == torch.float16 else 1e-6
    assert_same(DIVISIONS, (torch.ones_like(a) * 3, torch.ones_like(b) * 2), a, b, rtol=rtol)


BIG = 2**60 + 1


def test_sums_and_products_of_integers_are_exact() -> None:
    """ONNX Runtime's adds and multiplies int64 in float64 and saturates int32."""
    functions: dict[str, Function] = {
        "sum": lambda x: x.sum(),
        "sum_dim": lambda x: x.sum(1),
        "sum_keepdim": lambda x: x.sum((0, 1), keepdim=True),
        "sum_int32": lambda x: x.sum(1, dtype=torch.int32),
        "prod": lambda x: x.prod(),
        "prod_dim": lambda x: x.prod(1),
        "prod_keepdim": lambda x: x.prod(0, keepdim=True),
        "squares": lambda x: (x * x).sum(-1),
        "powers": lambda x: (x**2).sum() + (x**7).sum() + (x**0).sum(),
        "matmul": lambda x: x @ x.T,
    }
    for x in (
        torch.tensor([[BIG, 2, 3], [5, BIG, -7]]),
        torch.tensor([[2**31 - 1, 2**31 - 1, 5], [2**16 + 1, 2**20, -9]], dtype=torch.int32),
    ):
        assert_same(functions, (torch.ones_like(x),), x)


def test_a_sum_is_computed_in_the_dtype_that_it_states() -> None:
    """torch.onnx's adds in float16 and converts the infinity."""
    x = torch.tensor([60000.0, 60000.0], dtype=torch.float16)
    assert_same({"sum": lambda x: x.sum(dtype=torch.float32)}, (torch.ones_like(x),), x)


def test_powers_of_integers_by_tensors_stay_in_pytorch() -> None:
    with pytest.raises(NothingToCompileError, match=r"powers of integers in float64"):
        compiled(torch.pow, torch.ones(2, dtype=torch.int64), torch.ones(2, dtype=torch.int64))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32], ids=str)
def test_python_numbers_wrap_around_as_in_pytorch(dtype: torch.dtype) -> None:
    functions: dict[str, Function] = {
        "add": lambda x: x + 2**40 + 3,
        "multiply": lambda x: x * (2**40 + 3),
        "compare": lambda x: x > 2**40,
    }
    x = torch.tensor([1, 2], dtype=dtype)
    assert_same(functions, (x,), x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("boolean", [True, False], ids=["bool", "float"])
def test_a_row_that_attends_to_nothing_gives_zero(dtype: torch.dtype, boolean: bool) -> None:
    """torch.onnx's: the mean of all values for a boolean mask, NaN for one of -infinity."""
    q, k, v = (torch.rand(2, 4, length, 8, dtype=dtype) for length in (3, 5, 5))
    seen = torch.ones(2, 1, 3, 5, dtype=torch.bool)
    some = seen.clone()
    some[0, 0, 1], some[1, 0, 2, :3] = False, False

    def mask(of: Tensor) -> Tensor:
        return of if boolean else torch.zeros(of.shape, dtype=dtype).masked_fill(~of, -INF)

    functions: dict[str, Function] = {
        "plain": sdpa,
        "scale": lambda *a: sdpa(*a, scale=0.3),
        "negative scale": lambda *a: sdpa(*a, scale=-0.3),
        "grouped": lambda q, k, v, m: sdpa(q, k[:, :2], v[:, :2], m, enable_gqa=True),
    }
    rtol = 2e-3 if dtype == torch.float16 else 1e-5
    assert_same(functions, (q, k, v, mask(seen)), q, k, v, mask(some), rtol=rtol)


def test_attention_with_empty_rows_and_division_build_for_tensorrt_rtx() -> None:
    q = torch.rand(2, 4, 3, 8)
    compiled(sdpa, q, q, q, torch.ones(2, 1, 3, 3, dtype=torch.bool), builder="tensorrt-rtx")
    compiled(torch.atan2, q, q, builder="tensorrt-rtx")
    compiled(lambda a, b: a // b + a % b, q, q, builder="tensorrt-rtx")
    whole = torch.ones(4, dtype=torch.int64)
    compiled(lambda a, b: a // b + a.sum(), whole, whole, builder="tensorrt-rtx")


DOUBLES: dict[str, Function] = {
    "multiply": lambda x: x * 0.1,
    "add": lambda x: x + 1e-12,
    "almost 1": lambda x: x * 1.0000001,
    "where": lambda x: torch.where(x > 2, x, 0.1),
    "full_like": lambda x: torch.full_like(x, 0.1) + x,
    "full": lambda x: torch.full((4,), 0.1, dtype=torch.float64) + x,
    "clamp": lambda x: x.clamp(0.1, 2.3),
    "pow": lambda x: x.abs() ** 0.3,
    "addcmul": lambda x: torch.addcmul(x, x, x, value=0.1),
    "addcdiv": lambda x: torch.addcdiv(x, x, x, value=0.1),
    "leaky_relu": lambda x: functional.leaky_relu(x, 0.1),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.1),
    "threshold": lambda x: functional.threshold(x, 0.1, 0.3),
    "hardtanh": lambda x: functional.hardtanh(x, -0.1, 0.3),
    "masked_fill": lambda x: x.masked_fill(x > 2, 0.1),
    "alpha": lambda x: torch.add(x, x, alpha=0.1),
    "layer_norm": lambda x: functional.layer_norm(x, (4,)),
    "arange": lambda x: x + torch.arange(0, 0.4, 0.1, dtype=torch.float64),
    "linspace": lambda x: x + torch.linspace(0, 0.7, 4, dtype=torch.float64),
}


def test_python_numbers_of_float64_programs_are_exact() -> None:
    """torch.onnx makes float32 of them."""
    x = torch.tensor([1.0, 2.0, 3.0, -1.0], dtype=torch.float64)
    assert_same(DOUBLES, (x,), x, rtol=1e-15)


def test_what_onnx_keeps_in_float32_stays_in_pytorch_in_float64() -> None:
    x = torch.rand(4, dtype=torch.float64)
    with pytest.raises(NothingToCompileError, match=r"ONNX keeps alpha of Elu in float32"):
        compiled(lambda x: functional.elu(x, 0.1), x)


@pytest.mark.parametrize("shape", [(), (1,), (2, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_numbers_near_0_and_1_are_kept(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """onnxscript's optimizer takes 1e-9 for 0 and 1.000001 for 1."""
    functions: dict[str, Function] = {
        "add": lambda x: x / (x + 1e-9),
        "subtract": lambda x: x / (x - 1e-9),
        "multiply": lambda x: x * 1.000001 - x,
        "divide": lambda x: x / 1.000001 - x,
    }
    zero, one = torch.zeros(shape, dtype=dtype), torch.ones(shape, dtype=dtype)
    assert_same(functions, (one,), zero, rtol=1e-6)
    assert_same(functions, (one,), one, rtol=1e-8)
