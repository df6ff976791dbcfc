"""Every model family computes the same in eager PyTorch, compiled, and as a `.pte` that ExecuTorch runs."""

from __future__ import annotations

import copy
import functools
import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

import trt_export
import trt_runtime
from lowering import flat, load
from models import FAMILIES, BernoulliBetween, Family

RANDOM = "bernoulli_between"
BY_NAME = {family.name: family for family in FAMILIES}


@functools.cache
def compiled(family: Family) -> tuple[nn.Module, ExportedProgram]:
    module = family.make()
    return module, trt_export.compile(family.export(module), on_report=lambda report: None)


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.name != RANDOM], ids=str)
def test_eager_compiled_and_pte_compute_the_same(family: Family, tmp_path: Path) -> None:
    module, program = compiled(family)
    loaded = load(program, tmp_path / "model.pte")
    eager, in_torch = copy.deepcopy(module), copy.deepcopy(program).module()
    close = functools.partial(
        torch.testing.assert_close, rtol=family.tolerance, atol=family.tolerance
    )
    # The first sizes once more at the end: what was bound for them is used again.
    for sizes in (family.sizes, *family.other_sizes, family.sizes):
        for step in range(family.steps):
            torch.manual_seed(step)
            args, kwargs = family.inputs(*sizes)
            given = flat(copy.deepcopy((args, kwargs)))
            expected = flat(eager(*args, **kwargs))
            close(flat(in_torch(*args, **kwargs)), expected)
            close(loaded.run(given), expected)
            close(given, flat((args, kwargs)), rtol=0, atol=0)  # inputs stay as they are


def test_a_random_operator_draws_executorchs_own_numbers(tmp_path: Path) -> None:
    """There is no seed to give to ExecuTorch: each row must be that of some draw, and draws must differ."""
    family = BY_NAME[RANDOM]
    module, program = compiled(family)
    assert isinstance(module, BernoulliBetween)
    loaded = load(program, tmp_path / "model.pte")
    masks = torch.tensor(list(itertools.product([0.0, 1.0], repeat=8)))
    results = []
    for sizes in (family.sizes, *family.other_sizes):
        (x,), _ = family.inputs(*sizes)
        (found,) = loaded.run([x])
        with torch.no_grad():
            possible = module.second(module.first(x).sigmoid()[:, None] * masks)  # [n, 256, 4]
        distance = (found[:, None] - possible).abs().amax(-1)
        assert found.shape == (*sizes, 4)
        assert distance.amin(-1).max() < family.tolerance
        results.append(distance.argmin(-1))
    assert len(set(torch.cat(results).tolist())) > 1


def test_an_int_that_was_exported_is_a_constant_of_the_program(tmp_path: Path) -> None:
    """ExecuTorch takes no other value for it than the one that it was exported with."""
    _, program = compiled(BY_NAME["pass_through"])
    loaded = load(program, tmp_path / "model.pte")
    x, bias = torch.ones(4, 3), torch.ones(3)
    assert loaded.run([x, None, 2, bias])[4] == 2
    with pytest.raises(trt_runtime.InputError, match="expected the int 2, which is baked into"):
        loaded.run([x, None, 3, bias])
    assert loaded.run([x, None, 2, bias])[3] is None


@torch.no_grad()
def decoder_after(steps: int) -> nn.Module:
    """The decoder with a cache that has been written to already."""
    module = BY_NAME["cached_decoder"].make()
    for token in range(steps):
        module(torch.tensor([[token + 20]]))
    return module


@pytest.mark.parametrize("written", [0, 2], ids=["empty", "written"])
def test_a_decoder_keeps_its_cache_over_ten_steps(written: int, tmp_path: Path) -> None:
    module = decoder_after(written)
    program = trt_export.compile(
        BY_NAME["cached_decoder"].export(copy.deepcopy(module)), on_report=lambda report: None
    )
    path = tmp_path / "decoder.pte"
    loaded = load(program, path)
    in_torch = copy.deepcopy(program).module()
    tokens = [torch.tensor([[(7 * step + 3) % 50]]) for step in range(10)]
    expected = [module(token).detach() for token in tokens]
    for token, logits in zip(tokens, expected, strict=True):
        torch.testing.assert_close(in_torch(token), logits, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(loaded.run([token]), [logits], rtol=1e-5, atol=1e-5)
    # Each loaded program has a state of its own, and begins at the initial one.
    torch.testing.assert_close(
        trt_runtime.load(path).run(tokens[:1]), expected[:1], rtol=1e-5, atol=1e-5
    )


def test_two_methods_in_one_file_each_run_and_keep_their_own_state(tmp_path: Path) -> None:
    mlp, mlp_program = compiled(BY_NAME["mlp"])
    _, decoder_program = compiled(BY_NAME["cached_decoder"])
    decoder = BY_NAME["cached_decoder"].make()
    loaded = load({"score": mlp_program, "decode": decoder_program}, tmp_path / "two.pte")
    assert loaded.methods == ("decode", "score")
    for step in range(4):
        x, token = torch.randn(step + 1, 8), torch.tensor([[step]])
        torch.testing.assert_close(loaded.run([x], "score"), [mlp(x)], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(
            loaded.run([token], method="decode"), [decoder(token)], rtol=1e-5, atol=1e-5
        )
    with pytest.raises(trt_runtime.ProgramError, match="expected one of the methods decode, score"):
        loaded.run([torch.ones(1, 8)])


def test_two_methods_with_one_engine_share_it(tmp_path: Path) -> None:
    mlp, program = compiled(BY_NAME["mlp"])
    before = trt_runtime.stats()
    loaded = load({"first": program, "second": copy.deepcopy(program)}, tmp_path / "two.pte")
    x = torch.randn(3, 8)
    for method in ("first", "second", "first"):
        torch.testing.assert_close(loaded.run([x], method), [mlp(x)], rtol=1e-5, atol=1e-5)
    assert trt_runtime.stats()["executor_loads"] - before["executor_loads"] == 1


def gathered(x: Tensor, left: Tensor, right: Tensor) -> list[Tensor]:
    difference, product = left - right, left @ right.T
    return [difference.cumsum(0) + x, product.sum(-1)]


def test_operators_around_an_engine_run_in_executorch(tmp_path: Path) -> None:
    from export.programs import Calls, execute, running_engine

    def forward(self: Calls, x: Tensor, y: Tensor) -> list[Tensor]:
        left, right = torch.relu(x) * 2, y.sigmoid()
        difference, product = execute([left, right], self.engine)
        return [difference.cumsum(0) + x, product.sum(-1)]

    batch = torch.export.Dim("batch", min=1, max=16)
    program = torch.export.export(
        Calls(forward, engine=running_engine()),
        (torch.ones(2, 8), torch.ones(2, 8)),
        dynamic_shapes=(({0: batch}, {0: batch}),),
    )
    loaded = load(program, tmp_path / "around.pte")
    for size in (2, 16, 1, 5):
        x, y = torch.randn(size, 8), torch.randn(size, 8)
        expected = gathered(x, torch.relu(x) * 2, y.sigmoid())
        torch.testing.assert_close(list(program.module()(x, y)), expected)
        torch.testing.assert_close(loaded.run([x, y]), expected)


def test_one_engine_called_twice_is_loaded_once(tmp_path: Path) -> None:
    from export.programs import Calls, execute, running_engine

    def forward(self: Calls, x: Tensor, y: Tensor) -> list[Tensor]:
        first, _ = execute([x, y], self.engine)
        second, product = execute([first + 1, x], self.engine)
        return [first, second, product]

    program = torch.export.export(
        Calls(forward, engine=running_engine()), (torch.ones(2, 8), torch.ones(2, 8))
    )
    loaded = load(program, tmp_path / "twice.pte")
    before = trt_runtime.stats()
    for _ in range(3):
        x, y = torch.randn(2, 8), torch.randn(2, 8)
        first = x - y
        torch.testing.assert_close(
            loaded.run([x, y]), [first, first + 1 - x, (first + 1) @ x.T], rtol=1e-5, atol=1e-5
        )
    after = trt_runtime.stats()
    assert after["executor_loads"] - before["executor_loads"] == 1
    assert after["delegate_bindings"] - before["delegate_bindings"] == 2  # one for each call site
