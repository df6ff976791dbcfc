"""A dimension such as `32 * s` or `s + 1`: its multiples and its range are in the record and enforced."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export

import trt_export
import trt_runtime
from export.compiling.conftest import saved_and_loaded
from trt_export.engines.shapes import step_of


class Pool(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.avg_pool1d(x, 32)


class PoolAndAdd(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.avg_pool1d(x, 32) + y


class Differences(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[..., 1::2] - x[..., :-1:2]


class Tail(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return x[..., 1:] * y


S = Dim("s", min=2, max=4)

# module, sizes of the last dimensions, for the export; good sizes; bad sizes
CASES: dict[str, tuple[nn.Module, list[Any], list[Any], list[Any]]] = {
    "32*s": (Pool(), [32 * S], [[64], [96], [128]], [[0], [32], [63], [65], [160]]),
    "32*s and s": (
        PoolAndAdd(),
        [32 * S, S],
        [[64, 2], [128, 4]],
        [[32, 1], [65, 2], [64, 3], [160, 5]],
    ),
    "2*s+1": (Differences(), [2 * S + 1], [[5], [7], [9]], [[3], [6], [8], [11]]),
    "32*t, t from 1": (Pool(), [32 * Dim("t", min=1, max=4)], [[64], [128], [32]], [[0], [33]]),
    "s+1 and s": (Tail(), [S + 1, S], [[3, 2], [5, 4]], [[2, 1], [3, 3], [6, 5]]),
}


def inputs_of(sizes: list[int]) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(1, 1, size) for size in sizes]


def program_of(case: str) -> ExportedProgram:
    module, dims, good, _ = CASES[case]
    return export(module, tuple(inputs_of(good[0])), dynamic_shapes=tuple({2: dim} for dim in dims))


@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "saved"])
@pytest.mark.parametrize("case", CASES)
def test_only_sizes_that_the_dimension_can_have_are_taken(
    case: str, saved: bool, tmp_path: Path
) -> None:
    program = program_of(case)
    module, _, good, bad = CASES[case]
    compiled = trt_export.compile(saved_and_loaded(program) if saved else program)
    trt_export.save(trt_export.to_edge(compiled), tmp_path / "model.pte")
    loaded = trt_runtime.load(tmp_path / "model.pte")
    engine = trt_runtime.Engine.from_script_object(compiled.constants["engine_0"])
    for sizes in good:
        inputs = inputs_of(sizes)
        expected = module(*inputs)
        torch.testing.assert_close(engine(*inputs)[0], expected)
        torch.testing.assert_close(loaded.run(inputs)[0], expected)
    for sizes in bad:
        inputs = inputs_of(sizes)
        with pytest.raises(trt_runtime.InputError, match=r"input 'in_\d'"):
            engine(*inputs)
        with pytest.raises(trt_runtime.InputError, match=r"input ('in_)?\d"):
            loaded.run(inputs)


def test_the_module_of_torch_refuses_them_too() -> None:
    module = trt_export.compile(program_of("32*s")).module()
    for size, message in ((32, "expected 64 to 128"), (65, "expected a multiple of 32")):
        with pytest.raises(trt_runtime.InputError, match=f"input 'in_0'.*{message}"):
            module(*inputs_of([size]))


def test_the_record_has_multiple_and_offset_where_they_say_something() -> None:
    def inputs(case: str) -> list[dict[str, Any]]:
        compiled = trt_export.compile(program_of(case))
        engine = trt_runtime.Engine.from_script_object(compiled.constants["engine_0"])
        return [binding.to_mapping() for binding in engine.info.inputs]

    (pooled,) = inputs("32*s")
    assert (pooled["multiple"], pooled["offset"]) == ([1, 1, 32], [0, 0, 0])
    assert (pooled["min"][2], pooled["opt"][2], pooled["max"][2]) == (64, 64, 128)
    (odd,) = inputs("2*s+1")
    assert (odd["multiple"], odd["offset"]) == ([1, 1, 2], [0, 0, 1])
    assert all("multiple" not in binding for binding in inputs("s+1 and s"))


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("32*s", (32, 0)),
        ("2*s - 1", (2, 1)),
        ("4*s + 6*t + 3", (2, 1)),
        ("s*t", (1, 0)),
        ("4*s*t + 8", (4, 0)),
        ("2*(s + 1)", (2, 0)),
        ("s", (1, 0)),
    ],
)
def test_the_step_of_an_expression(text: str, step: tuple[int, int]) -> None:
    import sympy

    symbols = {name: sympy.Symbol(name, integer=True, positive=True) for name in "st"}
    assert step_of(sympy.sympify(text, locals=symbols)) == step
