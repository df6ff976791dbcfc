"""A `.pte` takes the sizes that its program was exported for, also of inputs that no engine reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

import trt_export
import trt_runtime
from trt_runtime.delegate.limits import Limits, read_limits, refusals

STEPS = Dim("steps", min=3, max=5)


class Pooled(nn.Module):
    """`bernoulli` stays in PyTorch, so the engine's input is not the program's."""

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        rounded = torch.bernoulli((x > 0).to(torch.float32))
        return nn.functional.avg_pool1d(rounded, 32) @ torch.ones(1, 3) + y.sum()


def saved(path: Path, *, same: bool = False) -> trt_runtime.Program:
    inputs = (torch.ones(1, 128, 32), torch.ones(128 if same else 3))
    shapes = ({1: 32 * STEPS}, {0: 32 * STEPS} if same else None)
    program = export(Pooled(), inputs, dynamic_shapes=shapes)
    trt_export.save(trt_export.to_edge(trt_export.compile(program)), path)
    return trt_runtime.load(path)


def test_multiples_and_bounds_hold_where_no_engine_reads_the_input(tmp_path: Path) -> None:
    program = saved(tmp_path / "m.pte")
    assert program.signature().limits == (
        (Limits(1, 1), Limits(96, 160, 32, 0, "32*" + _symbol(program)), Limits(32, 32)),
        (Limits(3, 3),),
    )
    for size in (96, 128, 160):
        (y,) = program.run([torch.ones(1, size, 32), torch.zeros(3)])
        assert torch.equal(y, torch.ones(1, size, 3))
    for size in (0, 1, 64, 97, 159, 192):
        with pytest.raises(
            trt_runtime.InputError, match=rf"input 0 \(x\): expected .*found .*{size}"
        ):
            program.run([torch.ones(1, size, 32), torch.zeros(3)])


def test_dimensions_that_were_exported_as_one_have_one_size(tmp_path: Path) -> None:
    program = saved(tmp_path / "m.pte", same=True)
    program.run([torch.ones(1, 96, 32), torch.zeros(96)])
    with pytest.raises(
        trt_runtime.InputError,
        match=r"input 1 \(y\): expected 96 in dimension 0, as in dimension 1 of input 0, found 128",
    ):
        program.run([torch.ones(1, 96, 32), torch.zeros(128)])


def _symbol(program: trt_runtime.Program) -> str:
    limits = program.signature().limits[0]
    assert limits is not None
    return limits[1].expression.removeprefix("32*")


@pytest.mark.parametrize(
    "text",
    [
        "[3]",
        '[["x"]]',
        "[[[1, 2, 1, 0]]]",
        "[[[1, 2, 1, 0, 5]]]",
        '[[[2, 1, 1, 0, "s"]]]',
        '[[[1, 2, 0, 0, "s"]]]',
        '[[[1, 2, 2, 2, "s"]]]',
        '[[[1, 2.5, 1, 0, "s"]]]',
        '[[[-1, 2, 1, 0, "s"]]]',
        "[[true]]",
    ],
)
def test_damaged_limits_are_refused(text: str, tmp_path: Path) -> None:
    saved(tmp_path / "m.pte")
    whole = (tmp_path / "m.pte").read_bytes()
    start = whole.index(b'{"forward": [[1, [')
    end = whole.index(b"}", start) + 1
    damaged = (b'{"forward": ' + text.encode() + b"}").ljust(end - start)
    (tmp_path / "m.pte").write_bytes(whole[:start] + damaged + whole[end:])
    with pytest.raises(
        trt_runtime.ProgramError, match=r"input_sizes as JSON|expected the sizes of"
    ):
        trt_runtime.load(tmp_path / "m.pte")


def test_limits_read_as_they_are_written() -> None:
    limits = read_limits(json.loads('[[2, [1, 9, 2, 1, "2*s - 1"]], null, []]'))
    assert str(limits[0] and limits[0][1]) == "1 to 9, a multiple of 2 plus 1"
    assert list(refusals(limits, [torch.ones(2, 5), None, torch.ones(())])) == []
    ((index, reason),) = refusals(limits, [torch.ones(2, 4), None, torch.ones(())])
    assert index == 0
    assert reason.startswith("expected 1 to 9, a multiple of 2 plus 1 in dimension 1, found 4")
