"""Engines that compute other numbers than PyTorch, each only in a way that example inputs do not show."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from onnxscript import opset20
from torch import Tensor, nn
from torch.export import Dim, export

import trt_runtime
from trt_export.builders import OptimizedSession, ReferenceSession
from trt_export.builders.base import BuildRequest
from trt_export.builders.onnxruntime import OnnxRuntimeBuilder
from trt_export.compiling import CompileReport, compile, torch_onnx
from trt_export.compiling.verification import local
from trt_export.errors import TrtExportError

op: Any = opset20
aten = torch.ops.aten
FLOAT, DOUBLE, INT64, BOOL = 1, 11, 7, 9
X = torch.linspace(0.1, 3, 32).reshape(4, 8) + torch.arange(8) % 3

UseConverter = Callable[[Any, Callable[..., Any]], None]


@pytest.fixture
def use_converter(monkeypatch: pytest.MonkeyPatch) -> UseConverter:
    """Have an operator translated by a given function."""

    def use(target: Any, convert: Callable[..., Any]) -> None:
        functions = torch_onnx._registry().functions
        name = target._schema.name + (
            f".{target._overloadname}" if target._schema.overload_name else ""
        )
        metas = [
            dataclasses.replace(meta, onnx_function=convert)
            for meta in functions[name]
            if not meta.is_complex
        ]
        monkeypatch.setitem(functions, name, metas)

    return use


class Module(nn.Module):
    def __init__(self, function: Callable[..., Any], **buffers: Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, x: Tensor, y: Tensor | None = None) -> Any:
        arguments = (x,) if y is None else (x, y)
        return self.function(*arguments, *self.buffers())


def report_of(
    module: nn.Module, *args: Tensor, dynamic: bool = False, **options: Any
) -> CompileReport:
    reports: list[CompileReport] = []
    shapes = tuple({0: Dim("rows", min=2, max=8)} if dynamic else None for _ in args)
    source = export(module, args, dynamic_shapes=shapes)
    compile(source, on_report=reports.append, **options)
    return reports[0]


def _number(value: float, like: Any) -> Any:
    return op.CastLike(op.Constant(value_float=float(value)), like)


def _wrong_beyond(rows: int, *, below: bool = False) -> Callable[[Any], Any]:
    def convert(self: Any) -> Any:
        size = op.Gather(op.Shape(self), op.Constant(value_int=0))
        bound = op.Constant(value_int=rows)
        wrong = op.Less(size, bound) if below else op.Greater(size, bound)
        return op.Where(wrong, self, op.Neg(self))

    return convert


def _last_argmax(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    return op.ArgMax(self, axis=dim, keepdims=keepdim, select_last_index=1)


def _product_in(dtype: int, own: int) -> Callable[..., Any]:
    def convert(self: Any, other: Any) -> Any:
        return op.Cast(op.Mul(op.Cast(self, to=dtype), op.Cast(other, to=dtype)), to=own)

    return convert


def _topk_backwards(
    self: Any, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    """Wrong where several numbers are equal: gives the first of them again and again."""
    values, _ = op.TopK(self, op.Constant(value_ints=[k]), axis=dim, largest=largest, sorted=sorted)
    equal = op.Equal(op.Unsqueeze(values, [-1]), op.Unsqueeze(self, [-2]))
    return values, op.ArgMax(op.Cast(equal, to=FLOAT), axis=-1, keepdims=0)


@dataclass(frozen=True, eq=False)
class Case:
    """A function, an operator of it, its wrong converter, and the sample that shows it."""

    name: str
    function: Callable[..., Any]
    args: tuple[Tensor, ...]
    target: Any
    convert: Callable[..., Any]
    sample: str
    dynamic: bool = False

    def __str__(self) -> str:
        return self.name


MASK = torch.tensor([[True, True, False], [True, False, False]])
CASES = (
    Case(
        "zeros",
        lambda x: x.abs() * 2,
        (X,),
        aten.abs.default,
        lambda self: op.Where(op.Equal(self, _number(0, self)), _number(1, self), op.Abs(self)),
        "zeros and False",
    ),
    Case(
        "negatives",
        lambda x: x.abs() * 2,
        (X,),
        aten.abs.default,
        lambda self: op.Identity(self),
        "negative numbers and True",
    ),
    Case(
        "false",
        lambda x, y: (x + 1, ~y),
        (X, torch.ones(4, 8, dtype=torch.bool)),
        aten.bitwise_not.default,
        lambda self: op.And(self, op.Not(self)),
        "zeros and False",
    ),
    Case(
        "ties_argmax",
        lambda x: (x * 2).argmax(-1),
        (torch.arange(32.0).reshape(4, 8),),
        aten.argmax.default,
        _last_argmax,
        "zeros and False",
    ),
    Case(
        "ties_topk",
        lambda x: torch.topk(x * 2, 3, dim=-1)[1] + 1,
        (torch.arange(32.0).reshape(4, 8),),
        aten.topk.default,
        _topk_backwards,
        "zeros and False",
    ),
    Case(
        "halves",
        lambda x: torch.round(x) + 1,
        (X,),
        aten.round.default,
        lambda self: op.Floor(op.Add(self, _number(0.5, self))),
        "ties",
    ),
    Case(
        "larger_size",
        lambda x: x.neg() * 2,
        (X,),
        aten.neg.default,
        _wrong_beyond(6),
        "sizes up to twice the usual",
        dynamic=True,
    ),
    Case(
        "smallest_size",
        lambda x: x.neg() * 2,
        (X,),
        aten.neg.default,
        _wrong_beyond(4, below=True),
        "smallest sizes",
        dynamic=True,
    ),
    Case(
        "large_integers",
        lambda x: x * x + 1,
        (torch.arange(12),),
        aten.mul.Tensor,
        _product_in(DOUBLE, INT64),
        "large integers in x",
    ),
    Case(
        "emptied_rows",
        lambda x: x.any(-1) & x[:, 0].logical_or(x.any(-1)),
        (MASK,),
        aten.any.dim,
        lambda self, dim, keepdim=False: op.Cast(
            op.ReduceMax(op.Cast(op.Or(self, op.Not(self)), to=FLOAT), [-1], keepdims=0), to=BOOL
        ),
        "zeros and False",
    ),
    Case(
        "double_as_float",
        lambda x: x.neg() * (x + 1),
        (X.double() / 3,),
        aten.mul.Tensor,
        _product_in(FLOAT, DOUBLE),
        "example inputs",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_is_wrong_on_a_sample_stays_in_pytorch(
    case: Case, use_converter: UseConverter
) -> None:
    module = Module(case.function)
    assert not report_of(module, *case.args, dynamic=case.dynamic).left_in_pytorch
    use_converter(case.target, case.convert)
    report = report_of(module, *case.args, dynamic=case.dynamic)
    left = {node.operator: node.reason for node in report.left_in_pytorch}
    assert left == {
        str(case.target): f"its ONNX model computes other numbers than PyTorch (on {case.sample})"
    }
    assert report.verified


def test_rows_that_a_mask_empties_are_a_sample_of_their_own(use_converter: UseConverter) -> None:
    def convert(self: Any, dim: Any, keepdim: bool = False) -> Any:
        """Wrong for an empty row beside one that is not."""
        found = op.ReduceMax(op.Cast(self, to=FLOAT), [-1], keepdims=0)
        anything = op.ReduceMax(op.Cast(self, to=FLOAT), keepdims=0)
        return op.Cast(op.Max(found, anything), to=BOOL)

    use_converter(aten.any.dim, convert)
    report = report_of(Module(lambda x: ~x.any(-1)), MASK)
    (left,) = report.left_in_pytorch
    assert left.reason.endswith("(on rows that a mask empties)")


def test_what_optimizations_make_wrong_stays_in_pytorch() -> None:
    """ONNX Runtime makes y / x of (1 / x) * y, though 1 / x is infinite for the smallest numbers."""
    module = Module(lambda x, y, one: torch.div(one, x) * y, one=torch.ones(()))
    args = torch.tensor([1e-39, 2.0, 3.0]), torch.tensor([1e-5, 1.0, 2.0])
    report = report_of(module, *args)
    (left,) = report.left_in_pytorch
    assert "ONNX Runtime optimizes it to other numbers" in left.reason
    program = compile(export(module, args), on_report=lambda report: None)
    torch.testing.assert_close(program.module()(*args), module(*args))


class FloorBecomesRound(OnnxRuntimeBuilder):
    """A builder whose plans are not the model that it was given."""

    def build(self, request: BuildRequest) -> bytes:
        """Write another operator of as many letters."""
        from trt_export.plan import write_onnxruntime_plan

        content = b"".join(request.model.chunks()).replace(b"Floor", b"Round")
        return write_onnxruntime_plan([memoryview(content)], self.provenance())


def test_the_plan_itself_is_run() -> None:
    report = report_of(Module(lambda x: (x * 1.7).floor() + 1), X, builder=FloorBecomesRound())
    assert [node.operator for node in report.left_in_pytorch] == ["aten.floor.default"]


def test_rounding_that_becomes_another_integer_is_no_error(use_converter: UseConverter) -> None:
    def twice_the_half(self: Any) -> Any:
        half = op.Mul(self, _number(0.5, self))
        return op.Mul(op.Mul(op.Sin(half), op.Cos(half)), _number(2, self))

    use_converter(aten.sin.default, twice_the_half)
    module = Module(lambda x: torch.round(x.sin() * 1e7).to(torch.int64))
    report = report_of(module, X)
    assert not report.left_in_pytorch
    assert "example inputs" in report.engines[0].verification.rounding
    assert report.verified


def test_bfloat16_is_compared_in_float32(use_converter: UseConverter) -> None:
    pytest.importorskip("tensorrt_rtx", reason="the exporter's extra")
    module, x = Module(lambda x: (x * 2).abs() + 1), X.bfloat16()
    report = report_of(module, x, builder="tensorrt-rtx")
    assert not report.left_in_pytorch
    assert "in float32 for bfloat16" in report.engines[0].verification.method
    use_converter(aten.abs.default, lambda self: op.Identity(self))
    report = report_of(module, x, builder="tensorrt-rtx")
    assert [node.operator for node in report.left_in_pytorch] == ["aten.abs.default"]


def test_what_onnxruntime_cannot_run_is_not_called_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def run(*args: object) -> None:
        raise RuntimeError("no kernel")

    monkeypatch.setattr(ReferenceSession, "run", run)
    report = report_of(Module(lambda x: x * 2 + 1), X, builder="tensorrt-rtx")
    assert not report.verified
    verification = report.engines[0].verification
    assert not verification
    assert "no kernel" in verification.not_compared["anything"]


def test_no_time_means_the_examples_alone(use_converter: UseConverter) -> None:
    use_converter(aten.abs.default, lambda self: op.Identity(self))
    module = Module(lambda x: x.abs() * 2)
    report = report_of(module, X, dynamic=True, verify=0)
    assert report.verified
    assert not report.left_in_pytorch
    assert report.verification.samples == ("example inputs",)
    assert report.verification.allowed_seconds == 0
    assert report.engines[0].verification.compared == ("example inputs",)
    for name in ("smallest sizes", "zeros and False", "ties"):
        assert "no time left" in report.verification.skipped[name]
        assert "no time left" in report.engines[0].verification.not_compared[name]
    assert report_of(module, X, dynamic=True, verify=60).left_in_pytorch


def test_verification_can_be_left_out() -> None:
    report = report_of(Module(lambda x: x * 2), X, verify=False)
    assert not report.verified
    assert "verify" not in report.seconds
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(TrtExportError, match="number of seconds"):
            report_of(Module(lambda x: x * 2), X, verify=wrong)


def test_values_that_pytorch_refuses_are_skipped_by_name() -> None:
    module = Module(lambda x, y: nn.functional.embedding(y, x) * 2)
    report = report_of(module, X, torch.tensor([0, 3, 1]))
    assert report.verified
    assert not report.left_in_pytorch
    reason = report.verification.skipped["large integers in y"]
    assert "refuses these values" in reason
    assert "out of range" in reason
    assert "zeros and False" in report.verification.samples


@pytest.mark.parametrize("at_once", [2**28, 300], ids=["one_run", "bounded_bytes"])
def test_one_run_finds_all_wrong_nodes(
    at_once: int, use_converter: UseConverter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def function(x: Tensor) -> Tensor:
        for _ in range(10):
            x = (x - 1).abs() * 1.1
        return x

    fetched: list[int] = []
    translated: list[object] = []
    run, translate = OptimizedSession.run, torch_onnx.translate

    def counted_run(self: OptimizedSession, inputs: Any, values: Any = None) -> Any:
        found = run(self, inputs, values)
        fetched.append(sum(array.nbytes for array in found))
        return found

    def counted_translate(program: Any) -> Any:
        translated.append(program)
        return translate(program)

    monkeypatch.setattr(local, "_MOST_BYTES", at_once)
    monkeypatch.setattr(OptimizedSession, "run", counted_run)
    monkeypatch.setattr(torch_onnx, "translate", counted_translate)
    use_converter(aten.abs.default, lambda self: op.Identity(self))
    report = report_of(Module(function), X[:2, :4], verify=0)
    assert [node.operator for node in report.left_in_pytorch] == ["aten.abs.default"] * 10
    assert len(translated) == 1 + len(report.engines)
    assert max(fetched) <= max(at_once, 32)
    assert (len(fetched) == 1) == (at_once > 300)


def test_int8_of_a_runtime_that_is_wrong_elsewhere_is_not_called_verified(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def quantized(x: Tensor) -> Tensor:
        return torch.fake_quantize_per_tensor_affine(x * 2, 0.1, 0, -128, 127)

    assert report_of(Module(quantized), X).verified
    monkeypatch.setattr(trt_runtime, "capabilities", lambda: frozenset())
    report = report_of(Module(quantized), X)
    assert not report.verified
    assert "without VNNI" in (report.engines[0].verification.doubt or "")
