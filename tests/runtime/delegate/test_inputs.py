"""What a loaded program is given: what does not fit is a typed error, of this call and no other."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import trt_runtime
from lowering import load
from trt_runtime import InputError

from ..building import binding, engine_of
from .programs import Runs, export, scaling_pte, without_limits

X = torch.ones(2, 8)
# It fits the memory that ExecuTorch planned: the file's limits refuse it, or the engine's record.
WRONG_SIZE = torch.ones(3, 9)


@pytest.fixture
def program(tmp_path: Path) -> trt_runtime.Program:
    return trt_runtime.load(scaling_pte(tmp_path / "model.pte"))


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        ([], InputError, "expected 1 inputs, found 0; pass one for each"),
        ([X, X], InputError, "expected 1 inputs, found 2"),
        (
            ["text"],
            InputError,
            r"input 0 \(inputs_0\): expected a tensor, a number or None, found str",
        ),
        ([[X]], InputError, "found list"),
        ([X.to("meta")], InputError, "expected a tensor on the CPU, found one on meta"),
        ([WRONG_SIZE], InputError, "expected 8 in dimension 1, found 9"),
        ([torch.ones(0, 8)], InputError, "expected 1 to 64 in dimension 0 of shape"),
        (
            [X.double()],
            InputError,
            r"input 0 \(inputs_0\): expected dtype torch.float32, found torch.float64; convert",
        ),
        ([X.long()], InputError, "expected dtype torch.float32, found torch.int64"),
        ([torch.ones(16)], InputError, "expected rank 2 .*, found rank 1"),
        ([torch.ones(65, 8)], InputError, r"up to \[64, 8\], found \[65, 8\]; pass less at once"),
        ([3], InputError, "expected a tensor of sizes .*, found int"),
        ([None], InputError, "expected a tensor of sizes .*, found None"),
    ],
    ids=lambda value: "",
)
def test_inputs_that_do_not_fit(
    program: trt_runtime.Program, inputs: list[Any], error: type[Exception], message: str
) -> None:
    for _ in range(2):
        with pytest.raises(error, match=message) as caught:
            program.run(inputs)
        assert str(program._path) in str(caught.value)
    assert torch.equal(program.run([X])[0], 2 * X)


@pytest.mark.parametrize(
    "x",
    [torch.randn(8, 4).T, torch.randn(3, 16)[:, ::2], torch.randn(1, 8).expand(4, 8)],
    ids=["transposed", "every second", "expanded"],
)
def test_inputs_of_any_strides_are_read_right(program: trt_runtime.Program, x: Tensor) -> None:
    assert not x.is_contiguous()
    assert torch.equal(program.run([x])[0], 2 * x)


def test_an_error_of_one_call_is_not_told_of_another(program) -> None:
    with pytest.raises(InputError, match="in dimension 1"):
        program.run([WRONG_SIZE])
    with pytest.raises(InputError) as caught:
        program.run([X.double()])
    assert "dimension" not in str(caught.value)


def test_an_error_of_a_stock_method_is_not_told_of_a_later_call(tmp_path: Path, program) -> None:
    from executorch.runtime import Runtime

    program.run([X])  # loading a method forgets errors too
    stock = Runtime.get().load_program(program._path).load_method("forward")
    with pytest.raises(RuntimeError, match="0x12"):
        stock.execute([WRONG_SIZE])
    with pytest.raises(InputError) as caught:
        program.run([X.double()])
    assert "dimension" not in str(caught.value)


def test_an_error_of_one_thread_is_not_told_in_another(program) -> None:
    failed = threading.Thread(target=pytest.raises, args=(InputError, program.run, [WRONG_SIZE]))
    failed.start()
    failed.join()
    with pytest.raises(InputError) as caught:
        program.run([X.double()])
    assert "dimension" not in str(caught.value)


@pytest.mark.parametrize("exporter", ["old", "new"])
def test_memory_in_another_order_of_dimensions(
    exporter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine would read channels last in the wrong order: the exporter makes it contiguous since 0.4.0."""
    if exporter == "old":
        monkeypatch.setattr("trt_export.passes.stage.Stage.make_contiguous", lambda stage: None)
    engine = engine_of(
        [("Relu", ["a"], ["b"])],
        [binding("a", "float32", [1, 3, 4, 5], {})],
        [binding("b", "float32", [1, 3, 4, 5])],
    )

    def forward(self: Runs, x: Tensor) -> Any:
        return self.call(x.to(memory_format=torch.channels_last))[0]

    program = torch.export.export(Runs(engine, forward), (torch.randn(1, 3, 4, 5),))
    loaded = load(program, tmp_path / "channels_last.pte")
    x = torch.randn(1, 3, 4, 5)
    if exporter == "new":
        assert torch.equal(loaded.run([x])[0], x.relu())
        return
    with pytest.raises(InputError, match=r"expected contiguous memory, .* lower it again"):
        loaded.run([x])


def test_a_method_without_engines_runs(tmp_path: Path) -> None:
    """A file of another exporter: our `load` is ExecuTorch's own runtime."""
    import executorch.exir

    exported = torch.export.export(nn.ReLU().eval(), (X,))
    path = tmp_path / "plain.pte"
    executorch.exir.to_edge(exported).to_executorch().save(str(path))
    torch.testing.assert_close(trt_runtime.load(path).run([-X]), [torch.zeros(2, 8)])


def test_empty_tensors_where_the_record_allows_them(tmp_path: Path) -> None:
    engine = engine_of(
        [("Relu", ["a"], ["b"])],
        [binding("a", "float32", ["i0d0", 8], {0: (0, 16)})],
        [binding("b", "float32", ["i0d0", 8])],
    )
    loaded = load(export(Runs(engine), X, largest=16), tmp_path / "empty.pte")
    for size in (2, 0, 2, 0):
        x = torch.randn(size, 8)
        assert torch.equal(loaded.run([x])[0], x.relu())


def test_the_engine_refuses_sizes_that_the_file_does_not_name(tmp_path: Path) -> None:
    program = trt_runtime.load(without_limits(scaling_pte(tmp_path / "model.pte")))
    with pytest.raises(InputError, match="expected 8 in dimension 1 of shape"):
        program.run([WRONG_SIZE])
    assert torch.equal(program.run([X])[0], 2 * X)


def test_a_number_is_the_one_that_was_exported(tmp_path: Path) -> None:
    import executorch.exir

    class Scaled(nn.Module):
        def forward(self, x: Tensor, factor: float) -> Tensor:
            return x * factor

    path = tmp_path / "scaled.pte"
    executorch.exir.to_edge(torch.export.export(Scaled(), (X, 2.5))).to_executorch().save(str(path))
    program = trt_runtime.load(path)
    assert torch.equal(program.run([X, 2.5])[0], 2.5 * X)
    for wrong in (3.5, 2, True, None, X, 10**30):
        with pytest.raises(InputError, match=r"input 1: expected the float 2.5, which is baked"):
            program.run([X, wrong])
    with pytest.raises(InputError, match=r"input 0: expected the sizes \[2, 8\], found \[3, 8\]"):
        program.run([torch.ones(3, 8), 2.5])


def test_none_for_a_number_that_the_file_has_no_place_for(tmp_path: Path) -> None:
    """ExecuTorch ends the process if it is given what its tables ask for."""
    import executorch.exir

    class Scaled(nn.Module):
        def forward(self, x: Tensor, factor: int, unused: Any = None) -> Tensor:
            return x * factor

    dynamic = {"x": None, "factor": torch.export.Dim.DYNAMIC, "unused": None}
    exported = torch.export.export(Scaled(), (X, 3, None), dynamic_shapes=dynamic)
    path = tmp_path / "scaled.pte"
    executorch.exir.to_edge(exported).to_executorch().save(str(path))
    program = trt_runtime.load(path)
    for value in (None, 3, 2.5, True, X):
        with pytest.raises(
            InputError, match=r"input 1: .*a number that may change, .* tensor instead"
        ):
            program.run([X, value, None])


def test_no_other_kind_of_value_reaches_executorch(tmp_path: Path) -> None:
    import executorch.exir

    class Mixed(nn.Module):
        def forward(self, x: Tensor, n: int, f: float, b: bool, none: Any = None) -> Tensor:
            return x * n + f if b else x

    good = [X, 2, 0.5, True, None]
    path = tmp_path / "mixed.pte"
    exported = torch.export.export(Mixed(), tuple(good))
    executorch.exir.to_edge(exported).to_executorch().save(str(path))
    program = trt_runtime.load(path)
    others = [None, X, 3, 1.5, False, "text", b"", object(), [X], (), {}, X.numpy(), 1j, 2**70]
    for index, fitting in enumerate(good):
        for other in others:
            if (other is None and fitting is None) or (other is X and fitting is X):
                continue
            with pytest.raises(InputError, match=f"input {index}: expected"):
                program.run([*good[:index], other, *good[index + 1 :]])
    assert torch.equal(program.run(good)[0], X * 2 + 0.5)
