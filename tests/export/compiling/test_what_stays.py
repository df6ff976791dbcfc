"""What cannot be in an engine stays in PyTorch, with the reason, and the results are still right."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export
from torch.nn import functional

from trt_export.compiling import CompileReport, compile
from trt_export.errors import NothingToCompileError


@dataclass(frozen=True, eq=False)
class Case:
    """A function; the operators that must stay, each with part of its reason."""

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    stays: dict[str, str]
    builder: str = "onnxruntime"
    rows: Any = None
    """The Dim of the arguments' first dimension; None stands for 2 to 8 rows."""

    def __str__(self) -> str:
        return self.name


_ROWS = Dim("rows", min=2, max=8)
X = torch.linspace(-2, 2, 32).reshape(4, 8)


def _cond(x: Tensor) -> Tensor:
    return torch.cond(x.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), [x + 1]) * 2


def _item(x: Tensor, count: Tensor) -> Tensor:
    number = count.item()
    torch._check(number >= 0)
    torch._check(number <= 8)
    return (x + 1)[:, :number].sum(1) * 2


def _sandwich(x: Tensor) -> tuple[Tensor, Tensor]:
    first = x + 1
    second = torch.linalg.svdvals(first) * 2
    return second.sum() * first, torch.linalg.svdvals(second.sum() + first) + 1


def _late_input(x: Tensor) -> tuple[Tensor, ...]:
    """The engine's first node is used early, and its last node needs what is computed late."""
    first = x + 1
    early = torch.linalg.svdvals(first)
    late = torch.linalg.svdvals(x)
    return early, late * 2


CASES = (
    Case(
        "no_converter",
        lambda x: torch.linalg.svdvals(x + 1) * 2,
        (X,),
        {"_linalg_svd": "no converter"},
    ),
    Case("late_input", _late_input, (X,), {"_linalg_svd": "no converter"}),
    Case("twice", _sandwich, (X,), {"_linalg_svd": "no converter"}),
    Case(
        "random",
        lambda x: functional.dropout(x + 1, 0.5, True) * 2,
        (X,),
        {"native_dropout": "random"},
    ),
    Case(
        "complex",
        lambda x: torch.fft.rfft(x + 1) * 2,
        (X,),
        {"_fft_r2c": "return real tensors", "mul": "return real tensors"},
    ),
    Case("control_flow", _cond, (X,), {"cond": "control flow"}),
    Case(
        "item",
        _item,
        (X, torch.tensor(3)),
        {"_local_scalar_dense": "reads a tensor's value", "slice": "no input's"},
    ),
    Case("mask", lambda x: (x + 1)[x > 0].sum() * 2, (X,), {"index": "not known beforehand"}),
    Case(
        "float_sizes",
        lambda x: functional.interpolate(x.T[None] + 1, scale_factor=1.5).relu() + 1,
        (X,),
        {"upsample_nearest1d": "no integer arithmetic"},
    ),
    Case(
        "converter_fails",
        lambda x: (x + 1).chunk(2)[0] * 2,
        (X,),
        {"split": "torch.onnx cannot convert it"},
        rows=2 * Dim("half", min=2, max=4),
    ),
    Case(
        "wrong_numbers",
        lambda x: functional.avg_pool2d(x[None] + 1, (1, 2), divisor_override=3).relu() * 2,
        (X,),
        {"avg_pool2d": "other numbers than PyTorch"},
    ),
    Case(
        "batch_norm_in_training",
        lambda x: functional.batch_norm(x + 1, None, None, training=True) * 2,
        (X,),
        {"_native_batch_norm_legit": "training mode"},
    ),
    Case(
        "double",
        lambda x: (x * 2.0).float() + 1,
        (X.double(),),
        {"mul": "float64", "_to_copy": "float64"},
        "tensorrt-rtx",
    ),
    Case(
        "parser_refuses",
        lambda x, i: torch.zeros_like(x).scatter_add(1, i, x) * 2,
        (X, torch.zeros(4, 8, dtype=torch.int64)),
        {"scatter_add": "Unsupported reduction"},
        "tensorrt-rtx",
    ),
    Case(
        "build_fails",
        lambda x, i: (x + 1, (i + i) * 2),
        (X, torch.ones(4, 8, dtype=torch.int8)),
        {"mul": "no engine was built"},
        "tensorrt-rtx",
    ),
)


class Module(nn.Module):
    def __init__(self, function: Callable[..., Any], count: int) -> None:
        super().__init__()
        self.function = function
        self.count = count

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        return self.function(x) if self.count == 1 else self.function(x, y)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_stays_in_pytorch_with_the_reason(case: Case) -> None:
    module = Module(case.function, len(case.args)).eval()
    shapes = tuple(
        {0: case.rows or _ROWS} if isinstance(a, Tensor) and a.dim() else None for a in case.args
    )
    source = export(module, case.args, dynamic_shapes=shapes)
    reports: list[CompileReport] = []
    program = compile(source, builder=case.builder, on_report=reports.append)
    (report,) = reports
    left = {
        node.operator.removeprefix("aten.").split(".")[0]: node.reason
        for node in report.left_in_pytorch
    }
    assert left.keys() == case.stays.keys(), left
    for operator, reason in case.stays.items():
        assert reason in left[operator]
    assert report.engines
    if case.builder != "onnxruntime":
        return
    for rows in (4, 6, 8):
        args = tuple(
            a[:1].repeat(rows, 1) + a[:1] if isinstance(a, Tensor) and a.dim() else a
            for a in case.args
        )
        torch.manual_seed(1)
        expected = module(*args)
        torch.manual_seed(1)
        torch.testing.assert_close(program.module()(*copy.deepcopy(args)), expected)


def test_bfloat16_for_onnxruntime_says_what_to_do() -> None:
    program = export(nn.Linear(4, 4).bfloat16(), (torch.ones(2, 4, dtype=torch.bfloat16),))
    with pytest.raises(
        NothingToCompileError, match=r"no bfloat16: convert the model .*builder=\"tensorrt-rtx\""
    ):
        compile(program)


def test_bfloat16_is_built_for_tensorrt_rtx() -> None:
    program = export(nn.Linear(4, 4).bfloat16(), (torch.ones(2, 4, dtype=torch.bfloat16),))
    reports: list[CompileReport] = []
    compile(program, builder="tensorrt-rtx", on_report=reports.append)
    assert not reports[0].left_in_pytorch


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: torch.linalg.svdvals(x), "no converter"),
        (lambda x: torch.rand_like(x), "random"),
        (lambda x: x, "it computes nothing"),
    ],
)
def test_nothing_to_compile_lists_the_reasons(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(NothingToCompileError) as error:
        compile(export(Module(function, 1), (X,)))
    assert reason in str(error.value)


def test_a_custom_operator_stays() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")

        @torch.library.custom_op("trt_export_tests::negate", mutates_args=())
        def negate(x: Tensor) -> Tensor:
            return -x

        negate.register_fake(torch.empty_like)
    reports: list[CompileReport] = []
    source = export(Module(lambda x: negate(x + 1) * 2, 1), (X,))
    program = compile(source, on_report=reports.append)
    assert [node.operator for node in reports[0].left_in_pytorch] == [
        "trt_export_tests.negate.default"
    ]
    torch.testing.assert_close(program.module()(X), (-(X + 1)) * 2)


def test_checks_of_what_an_engine_computes_make_no_outputs_of_it() -> None:
    def cast_twice(x: Tensor) -> Tensor:
        return (x + 1).to(torch.int64).to(torch.float32) * 2

    source = export(Module(cast_twice, 1), (X,))
    assert "_assert_tensor_metadata" in str(source.graph)
    program = compile(source)
    (call,) = program.graph.find_nodes(
        op="call_function", target=torch.ops.trt_runtime.execute_engine.default
    )
    assert len(call.meta["val"]) == 1
    torch.testing.assert_close(program.module()(X), cast_twice(X))


def test_without_example_inputs_the_report_says_that_nothing_was_verified() -> None:
    source = export(Module(lambda x: x * 2, 1), (X,))
    reports: list[CompileReport] = []
    compile(source, on_report=reports.append)
    source.example_inputs = None
    compile(source, on_report=reports.append)
    assert [report.verified for report in reports] == [True, False]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x, y: torch.diagonal_scatter(x + 1, y[:, 0]) * 2, (X[:, :4], X)),
        (lambda x, i: torch.take(x + 1, i) * 2, (torch.tensor(1.5), torch.tensor(0))),
    ],
    ids=["diagonal_scatter", "take"],
)
def test_a_decomposition_that_fails_is_done_without(
    function: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    program = compile(export(Module(function, 2), args), on_report=lambda report: None)
    torch.testing.assert_close(program.module()(*args), function(*args))
