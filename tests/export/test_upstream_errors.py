"""Errors of torch, torch.onnx, ONNX and ExecuTorch come as ours; what is no error of theirs passes as it is."""

from __future__ import annotations

import pkgutil
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from executorch.exir import EdgeProgramManager, ExecutorchProgramManager
from executorch.exir.verification.verifier import SpecViolationError
from torch import Tensor, nn
from torch._export.error import ExportError
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

import trt_export
from trt_export.builders import get_builder
from trt_export.compiling import torch_onnx
from trt_export.errors import (
    BuildFailedError,
    FileFormatError,
    LoweringError,
    NothingToCompileError,
    TrtExportError,
    UnsupportedProgramError,
)
from trt_export.upstream_errors import wrapped_errors

X = torch.randn(2, 3)
KINDS = (
    AssertionError(),
    RuntimeError("no such thing"),
    KeyError("s33"),
    NotImplementedError(),
    ValueError("a\nb"),
    ExportError("none", "no export"),
    onnx.checker.ValidationError("no model"),
    GuardOnDataDependentSymNode(None, "u0 > 64"),
    SpecViolationError("no edge operator"),
    RecursionError("too deep"),
)
PASSING = (KeyboardInterrupt(), SystemExit(3), MemoryError())


class Product(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x @ x.mT


def _compile(tmp_path: Path) -> object:
    return trt_export.compile(torch.export.export(Product(), (X,)))


def _compile_bounded(tmp_path: Path) -> object:
    shapes = ({0: torch.export.Dim("rows", max=8)},)
    program = torch.export.export(Product(), (X,), dynamic_shapes=shapes)
    return trt_export.compile(program, dynamic={"rows": (1, 2, 4)})


def _lower(tmp_path: Path) -> object:
    return trt_export.to_edge(trt_export.compile(torch.export.export(Product(), (X,))))


def _save(tmp_path: Path) -> object:
    edge = trt_export.to_edge(trt_export.compile(torch.export.export(Product(), (X,))))
    return trt_export.save(edge, tmp_path / "model.pte")


def _info(tmp_path: Path) -> object:
    _save(tmp_path)
    return trt_export.info(tmp_path / "model.pte")


def _load(tmp_path: Path) -> object:
    from trt_export.building import load_program

    return load_program(tmp_path / "model.pt2")


# What is called, the function that fails (another package's, or ours that calls it), our error, and what says where.
PLACES: dict[str, tuple[Callable[[Path], object], str, type[TrtExportError], str]] = {
    "decompose": (
        _compile,
        "torch.export.ExportedProgram.run_decompositions",
        UnsupportedProgramError,
        "decompose",
    ),
    "narrow": (
        _compile_bounded,
        "trt_export.compiling.compile.narrow",
        UnsupportedProgramError,
        "compile, phase 'decompose'",
    ),
    "partition": (
        _compile,
        "trt_export.compiling.engines.partition",
        UnsupportedProgramError,
        "compile, phase 'partition'",
    ),
    "translate": (
        _compile,
        "trt_export.compiling.torch_onnx.translate",
        NothingToCompileError,
        "torch.onnx cannot convert it",
    ),
    "splice": (
        _compile,
        "trt_export.compiling.compile.splice",
        UnsupportedProgramError,
        "compile, phase 'splice'",
    ),
    "lower": (
        _lower,
        "trt_export.edge.to_edge_transform_and_lower",
        LoweringError,
        "to_edge, pass 'lower'",
    ),
    "delegate": (
        _lower,
        "executorch.exir.EdgeProgramManager.to_backend",
        LoweringError,
        "to_edge, pass 'delegate'",
    ),
    "emit": (
        _save,
        "executorch.exir.EdgeProgramManager.to_executorch",
        LoweringError,
        "save, ExecuTorch's to_executorch",
    ),
    "info": (_info, "trt_export.inspecting.pte_info", FileFormatError, "info of"),
    "load": (_load, "trt_runtime.load_program", FileFormatError, "cannot be loaded"),
}


def _place(function: str) -> tuple[Any, str]:
    """A module or class, and the name in it (`trt_export.compiling.compile` is a module, and a function too)."""
    owner, _, name = function.rpartition(".")
    return sys.modules.get(owner) or pkgutil.resolve_name(owner), name


def _raiser(error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("place", PLACES)
def test_every_kind_is_wrapped(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    call, function, kind, text = PLACES[place]
    for error in KINDS:
        with monkeypatch.context() as patch:
            patch.setattr(*_place(function), _raiser(error))
            with pytest.raises(kind) as caught:
                call(tmp_path)
        assert text in str(caught.value)
        assert type(error).__name__ in str(caught.value)
        if place != "translate":  # whose error becomes a reason, node by node
            assert caught.value.__cause__ is error


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
def test_what_is_no_error_of_theirs_passes(
    place: str, error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call, function, _, _ = PLACES[place]
    monkeypatch.setattr(*_place(function), _raiser(error))
    with pytest.raises(type(error)) as caught:
        call(tmp_path)
    assert caught.value is error


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize(
    "function",
    [
        "trt_export.builders.onnxruntime.check_kernels",
        "trt_export.compiling.verification.verifier.record",
        "trt_export.compiling.verification.candidate.Candidate.run",
        "trt_export.compiling.verification.samples._other_sizes",
    ],
)
def test_lack_of_memory_is_no_reason_to_leave_nodes_in_pytorch(
    function: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is an interrupt: what is refused without them would depend on the machine."""
    monkeypatch.setattr(*_place(function), _raiser(error))
    with pytest.raises(type(error)) as caught:
        trt_export.compile(torch.export.export(Product(), (X,)))
    assert caught.value is error


@pytest.mark.parametrize("method", ["check", "build"])
def test_an_error_of_a_builder_names_it(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class TwoParts(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.bernoulli((x @ x.mT).sigmoid()) @ x

    builder = get_builder("onnxruntime", None)
    error = KeyError("mine")
    monkeypatch.setattr(type(builder), method, _raiser(error))
    with pytest.raises(
        BuildFailedError, match=r"builder 'onnxruntime'.*KeyError: 'mine'"
    ) as caught:
        trt_export.compile(torch.export.export(TwoParts(), (X,)), builder=builder)
    assert caught.value.__cause__ is error


def test_errors_of_callbacks_pass() -> None:
    error = KeyError("mine")
    program = torch.export.export(Product(), (X,))
    for callback in ("on_report", "on_progress"):
        with pytest.raises(KeyError) as caught:
            trt_export.compile(program, **{callback: _raiser(error)})
        assert caught.value is error
    with pytest.raises(KeyError) as caught:
        trt_export.to_edge(trt_export.compile(program), on_progress=_raiser(error))
    assert caught.value is error


def test_a_reason_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "expected compiled_fn to be GraphModule, got <class 'function'>"
    monkeypatch.setattr(ExportedProgram, "run_decompositions", _raiser(AssertionError(text)))
    assert len(list(torch_onnx.decomposition_tables())) == 3
    with pytest.raises(UnsupportedProgramError, match="strict=True") as caught:
        trt_export.compile(torch.export.export(Product(), (X,)))
    assert str(caught.value).count(text) == 1


class Root(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT) / x.shape[-1] ** 0.5


class FullOfRoot(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT) + torch.full((2,), x.shape[-1] ** 0.5)


@pytest.mark.parametrize("module", [Root, FullOfRoot])
def test_a_float_of_a_size_is_named(module: type[nn.Module]) -> None:
    shapes = ({1: torch.export.Dim("s", min=2, max=64)},)
    program = trt_export.compile(torch.export.export(module(), (X,), dynamic_shapes=shapes))
    with pytest.raises(LoweringError, match=r"node '\w+' .* float of a dynamic size.* static"):
        trt_export.to_edge(program)


class Roots(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        root = x.shape[-1] ** 0.5
        return (x @ x.mT) / root + torch.full((2,), root * 2) - (root + 1) + (root - 3) * (root / 5)


def test_a_way_out_is_said_once_for_all_nodes() -> None:
    shapes = ({1: torch.export.Dim("s", min=2, max=64)},)
    exported = torch.export.export(Roots(), (X,), dynamic_shapes=shapes)
    with pytest.raises(LoweringError) as caught:
        trt_export.to_edge(trt_export.compile(exported))
    text = str(caught.value)
    assert text.count("float of a dynamic size") == 1
    assert text.count("of method 'forward'") == 3
    assert re.search(r" and \d+ more: it makes a float", text)


class Distinct(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.unique(x @ x.mT)


def test_the_way_out_comes_before_executorch() -> None:
    with pytest.raises(LoweringError) as caught:
        trt_export.to_edge(trt_export.compile(torch.export.export(Distinct(), (X,))))
    text = str(caught.value)
    assert text.startswith(
        "to_edge, pass 'lower': node '_unique2' of method 'forward' (aten._unique2"
    )
    assert "; found SpecViolationError: Operator torch._ops.aten._unique2.default is not in" in text
    assert "create an issue" in str(caught.value.__cause__)
    assert "create an issue" not in text
    assert "\n" not in text
    assert len(text) < 900


@torch.library.custom_op("trt_export_tests::twice", mutates_args=())
def twice(x: Tensor) -> Tensor:
    return x * 2


@twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _magnitude(x: Tensor) -> Tensor:
    return x.abs() @ x.abs().mT


COMPLEX = torch.randn(2, 3, dtype=torch.complex64)
REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "no out variant": (
        lambda x: twice(x @ x.mT),
        (X,),
        r"node '\w+' .*trt_export_tests.twice.default.*no out variant",
    ),
    "complex input": (_magnitude, (COMPLEX,), r"node 'abs_1' .*input 'a_0' is complex"),
    "string input": (lambda x, how: x @ x.mT, (X, "mean"), r"input 'a_1'.*string 'mean'"),
    "string output": (lambda x: (x @ x.mT, "done"), (X,), r"output '1'.*string 'done'"),
    "nonzero": (lambda x: (x @ x.mT, x.nonzero()), (X,), r"node '\w*nonzero\w*'.*flatten"),
    "where": (lambda x: torch.where((x @ x.mT) > 0), (X,), r"node '\w*nonzero\w*'.*flatten"),
    "masked_select": (
        lambda x: (x @ x.mT).masked_select(x[:, :2] > 0),
        (X,),
        r"node 'masked_select' .*other operators",
    ),
    "unique": (lambda x: torch.unique(x @ x.mT), (X,), r"node '_unique2' .*other operators"),
}


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *a: Any) -> Any:
        return self.function(*a)


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_file_cannot_have_is_named(name: str, tmp_path: Path) -> None:
    function, args, text = REFUSED[name]
    program = trt_export.compile(torch.export.export(Function(function), args))
    with pytest.raises(LoweringError, match=text):
        trt_export.save(trt_export.to_edge(program), tmp_path / "model.pte")


RIGHT: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "flat nonzero": (lambda x: (x @ x.mT).flatten().nonzero(), (X,)),
    "indexing by a mask": (lambda x: (x @ x.mT)[x[:, 0] > 0], (X,)),
    "numbers beyond int32": (
        lambda x: (x + 2**40, x * 2**40, x + (2**40 + 3)),
        (torch.arange(4, dtype=torch.int32),),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_what_works_is_right(name: str, tmp_path: Path) -> None:
    import trt_runtime

    function, args = RIGHT[name]
    edge = trt_export.to_edge(trt_export.compile(torch.export.export(Function(function), args)))
    assert isinstance(edge, EdgeProgramManager)
    trt_export.save(edge, tmp_path / "model.pte")
    found = trt_runtime.load(tmp_path / "model.pte").run(list(args))
    expected = function(*args)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_the_node_and_the_line_of_the_model_are_named() -> None:
    graph = torch.export.export(Product(), (X,)).graph

    def library() -> None:
        for node in graph.nodes:
            if node.target is torch.ops.aten.matmul.default:
                raise AssertionError

    with pytest.raises(LoweringError) as caught, wrapped_errors(LoweringError, "try", "stop"):
        library()
    text = str(caught.value)
    assert (
        "found AssertionError in library of test_upstream_errors.py: raise AssertionError" in text
    )
    assert "(node 'matmul', aten.matmul.default, File " in text
    assert text.endswith(", in forward); stop")


def test_what_cannot_be_written_for_no_fault_of_the_disk_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> None:
        raise KeyError("segment")

    monkeypatch.setattr(ExecutorchProgramManager, "write_to_file", fail)
    with pytest.raises(LoweringError, match="KeyError: 'segment'"):
        _save(tmp_path)
    assert not list(tmp_path.iterdir())
