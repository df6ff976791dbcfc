"""State in a `.pte`: whose it is, where it begins, and which of it methods share."""

from __future__ import annotations

import copy
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import ExecutorchBackendConfig
from executorch.exir.passes import MemoryPlanningPass
from torch import Tensor, nn
from torch.export import ExportedProgram

import trt_export
import trt_runtime
from lowering import MORE_WARNINGS
from trt_export.errors import LoweringError

pytestmark = [pytest.mark.filterwarnings(warning) for warning in MORE_WARNINGS]

X = torch.ones(4, 4)


class Counter(nn.Module):
    """Adds `step` to `cache` and 1 to `calls`; gives both."""

    def __init__(self, cache: float, calls: float, step: float, size: int = 4) -> None:
        super().__init__()
        self.register_buffer("cache", torch.full((size,), float(cache)))
        self.register_buffer("calls", torch.full((3,), float(calls)))
        self.step = step

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.cache.add_(self.step)
        self.calls.add_(1)
        return (x @ torch.ones(4, 4)).sum() * 0 + self.cache, self.calls + 0


class Stateless(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ torch.full((4, 4), 7.0))


def compiled(module: nn.Module, *inputs: Tensor) -> ExportedProgram:
    exported = torch.export.export(module, inputs or (X,))
    return trt_export.compile(exported, on_report=lambda report: None)


def counters(**modules: nn.Module) -> dict[str, ExportedProgram]:
    return {name: compiled(module) for name, module in modules.items()}


def results(program: trt_runtime.Program, methods: Sequence[str]) -> list[tuple[float, float]]:
    """Cache and calls after each run of one of `methods`; a run of `free` has neither."""
    found = []
    for method in methods:
        outputs = program.run([X], method)
        if method == "free":
            assert torch.equal(outputs[0], torch.full((4, 4), 28.0))
        else:
            found.append((outputs[0][0].item(), outputs[1][0].item()))
    return found


APART = [(6, 1), (15, 101), (7, 2), (25, 102), (8, 3)]
SHARED_CACHE = [(6, 1), (16, 101), (17, 2), (27, 102), (28, 3)]
ORDER = ("a", "b", "free", "a", "free", "b", "a")


def example() -> dict[str, ExportedProgram]:
    return counters(a=Counter(5, 0, 1), b=Counter(5, 100, 10), free=Stateless())


@pytest.mark.parametrize("data_file", [None, "plans"])
def test_methods_have_state_of_their_own(data_file: str | None, tmp_path: Path) -> None:
    edge = trt_export.to_edge(example(), data_file=data_file)
    files = trt_export.save(edge, tmp_path / "model.pte")
    first, second = trt_runtime.load(*files), trt_runtime.load(*files)
    assert results(first, ORDER) == APART
    assert results(second, ORDER) == APART
    assert results(first, "ab") == [(35 - 26, 4), (35, 103)]


def test_methods_of_one_program_run_in_threads_at_the_same_time(tmp_path: Path) -> None:
    trt_export.save(trt_export.to_edge(example()), tmp_path / "model.pte")
    program = trt_runtime.load(tmp_path / "model.pte")
    found: dict[str, list[tuple[float, float]]] = {}

    def run(method: str) -> None:
        found[method] = results(program, [method] * 50)

    threads = [threading.Thread(target=run, args=(method,)) for method in ("a", "b", "free")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found["a"] == [(5 + n, n) for n in range(1, 51)]
    assert found["b"] == [(5 + 10 * n, 100 + n) for n in range(1, 51)]


def sharing() -> ExecutorchBackendConfig:
    return ExecutorchBackendConfig(
        memory_planning_pass=MemoryPlanningPass(share_mutable_buffers=True)
    )


def test_named_buffers_are_shared_and_others_are_not(tmp_path: Path) -> None:
    edge = trt_export.to_edge(example())
    trt_export.save(edge, tmp_path / "model.pte", shared_buffers=["cache"])
    assert results(trt_runtime.load(tmp_path / "model.pte"), ORDER) == SHARED_CACHE
    methods = {method.name: method for method in trt_export.info(tmp_path / "model.pte").methods}
    assert methods["a"].shared_buffers == (("b", ("cache",)),)
    assert methods["free"].shared_buffers == ()


@pytest.mark.parametrize("order", ["abab", "bbaa"])
def test_a_method_that_runs_later_does_not_reset_what_is_shared(order: str, tmp_path: Path) -> None:
    programs = counters(a=Counter(5, 0, 1), b=Counter(5, 0, 10))
    trt_export.save(trt_export.to_edge(programs), tmp_path / "model.pte", shared_buffers=True)
    cache, expected = 5.0, []
    for calls, method in enumerate(order, 1):
        cache += {"a": 1, "b": 10}[method]
        expected.append((cache, calls))
    assert results(trt_runtime.load(tmp_path / "model.pte"), order) == expected


def test_one_config_that_shares_is_used_for_several_files(tmp_path: Path) -> None:
    config = sharing()
    for name, size in (("first", 4), ("second", 4096), ("third", 4)):
        programs = counters(a=Counter(0, 0, 1, size), b=Counter(0, 0, 10, size), free=Stateless())
        path = tmp_path / f"{name}.pte"
        trt_export.save(trt_export.to_edge(programs), path, config=config)
        assert results(trt_runtime.load(path), "ab") == [(1, 1), (11, 2)]
    assert not config.memory_planning_pass.state.graph_modules


def test_planners_by_method_share_nothing_between_them(tmp_path: Path) -> None:
    planner = MemoryPlanningPass(share_mutable_buffers=True)
    for planners in ({"a": planner, "b": MemoryPlanningPass()}, {"a": MemoryPlanningPass()}):
        config = ExecutorchBackendConfig(memory_planning_pass=planners)
        trt_export.save(trt_export.to_edge(example()), tmp_path / "model.pte", config=config)
        assert results(trt_runtime.load(tmp_path / "model.pte"), ORDER) == APART
    config = ExecutorchBackendConfig(memory_planning_pass={"a": planner, "b": planner})
    with pytest.raises(LoweringError, match="found one that shares for a and b; give it alone"):
        trt_export.save(trt_export.to_edge(example()), tmp_path / "model.pte", config=config)


def test_what_executorch_planned_itself_is_shared_too(tmp_path: Path) -> None:
    programs = counters(a=Counter(0, 0, 1), b=Counter(0, 0, 10), free=Stateless())
    trt_export.to_edge(programs).to_executorch(sharing()).save(str(tmp_path / "model.pte"))
    program = trt_runtime.load(tmp_path / "model.pte")
    assert results(program, ("a", "b", "free", "a")) == [(1, 1), (11, 2), (12, 3)]


@pytest.mark.parametrize(
    ("other", "shared", "message"),
    [
        (Counter(6, 0, 1), True, "'cache', shared by .* 'a' and 'b': .* different initial values"),
        (
            Counter(5, 0, 1, size=1),
            ["cache"],
            r"found shape torch.Size\(\[4\]\) and torch.Size\(\[1\]",
        ),
        (Counter(5, 0, 1).double(), ["cache"], "found dtype torch.float32 and torch.float64"),
        (Counter(5, 0, 1), ["cache", "n"], r"found no such \['n'\]; the methods mutate"),
        (Stateless(), True, "expected buffers that one method mutates and another one has too"),
        (Counter(5, 0, 1), "cache", r"expected a list of names, found 'cache'; write \['cache'\]"),
    ],
    ids=["value", "shape", "dtype", "name", "none", "text"],
)
def test_buffers_that_cannot_be_shared(
    other: nn.Module, shared: Any, message: str, tmp_path: Path
) -> None:
    x = X.double() if any(b.dtype == torch.float64 for b in other.buffers()) else X
    if x is not X:
        other.forward = lambda x: (other.cache.add_(1) + (x @ x).sum(), other.calls + 0)  # type: ignore[method-assign]
    programs = {"a": compiled(Counter(5, 0, 1)), "b": compiled(other, x)}
    edge = trt_export.to_edge(programs)
    with pytest.raises(LoweringError, match=message):
        trt_export.save(edge, tmp_path / "model.pte", shared_buffers=shared)
    assert not (tmp_path / "model.pte").exists()


def test_a_config_that_shares_is_checked_too(tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=r"'calls', shared by .* different initial values"):
        trt_export.save(trt_export.to_edge(example()), tmp_path / "m.pte", config=sharing())
    config = ExecutorchBackendConfig(memory_planning_pass={"a": MemoryPlanningPass()})
    with pytest.raises(LoweringError, match="expected one MemoryPlanningPass in the config"):
        trt_export.save(
            trt_export.to_edge(example()),
            tmp_path / "m.pte",
            config=config,
            shared_buffers=["cache"],
        )


def test_a_manager_with_state_is_saved_once(tmp_path: Path) -> None:
    edge = trt_export.to_edge(example())
    trt_export.save(edge, tmp_path / "model.pte")
    with pytest.raises(LoweringError, match=r"found one that was, .* or call to_edge again"):
        trt_export.save(edge, tmp_path / "again.pte")


def test_shared_state_beside_a_data_file_is_refused(tmp_path: Path) -> None:
    edge = trt_export.to_edge(example(), data_file="plans")
    files = trt_export.save(edge, tmp_path / "model.pte", shared_buffers=["cache"])
    with pytest.raises(trt_runtime.ProgramError, match=r"found a and b, .* without data_file"):
        trt_runtime.load(*files)


def test_memory_that_is_not_of_one_buffer_is_refused(tmp_path: Path) -> None:
    """ExecuTorch takes buffers of one name for one buffer, whatever their sizes."""
    programs = counters(a=Counter(0, 0, 1), b=Counter(0, 0, 1, size=2))
    trt_export.to_edge(programs).to_executorch(sharing()).save(str(tmp_path / "model.pte"))
    with pytest.raises(
        trt_runtime.ProgramError, match=r"expected one buffer at byte 0 .* with trt_exp"
    ):
        trt_runtime.load(tmp_path / "model.pte")


class Buffers(nn.Module):
    """State of several kinds: persistent and not, of one value and of many."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("zeros", torch.zeros(4))
        self.register_buffer("ones", torch.ones(4), persistent=False)
        self.register_buffer("many", torch.arange(4.0))
        self.register_buffer("signs", torch.tensor([0.0, -0.0, 0.0, -0.0]), persistent=False)
        self.register_buffer("count", torch.tensor(3))
        self.register_buffer("mask", torch.tensor([True, False, True, False]))

    def forward(self, x: Tensor) -> list[Tensor]:
        before = [1 / self.signs, self.count + 0, self.mask & True]
        for state in (self.zeros, self.ones, self.many):
            state.add_(1)
        self.signs.add_(1)
        self.count.add_(1)
        self.mask.logical_not_()
        return [
            (x @ torch.ones(4, 4)).sum() * 0 + self.zeros,
            self.ones + 0,
            self.many * 2,
            *before,
        ]


def decomposed(program: ExportedProgram, path: Path) -> ExportedProgram:
    return program.run_decompositions()


def saved(program: ExportedProgram, path: Path) -> ExportedProgram:
    torch.export.save(program, path / "model.pt2")
    return torch.export.load(path / "model.pt2")


def saved_by_us(program: ExportedProgram, path: Path) -> ExportedProgram:
    trt_runtime.save_program(program, path / "model.pt2")
    return trt_runtime.load_program(path / "model.pt2")


def copied(program: ExportedProgram, path: Path) -> ExportedProgram:
    return copy.deepcopy(program)


def itself(program: ExportedProgram, path: Path) -> ExportedProgram:
    return program


@pytest.mark.parametrize("way", [itself, saved, saved_by_us, copied, decomposed])
@pytest.mark.parametrize("run", ["before", "after", "both"])
def test_runs_in_pytorch_do_not_move_the_initial_values(way: Any, run: str, tmp_path: Path) -> None:
    program = compiled(Buffers())
    if run in ("before", "both"):
        program.module()(X)
    program = way(program, tmp_path)
    if run in ("after", "both"):
        program.module()(X)
        program.module()(X)
    trt_export.save(trt_export.to_edge(program), tmp_path / "model.pte")
    loaded, model = trt_runtime.load(tmp_path / "model.pte"), Buffers()
    for _ in range(3):
        torch.testing.assert_close(loaded.run([X]), model(X))


def test_initial_values_of_one_number_cost_one_number() -> None:
    program = compiled(Counter(5, 0, 1, size=2**16))
    kept = {name: value for name, value in program.constants.items() if "initial_value" in name}
    assert {
        name.rpartition(".")[2]: value.untyped_storage().nbytes() for name, value in kept.items()
    } == {
        "cache": 4,
        "calls": 4,
    }


class Writes(nn.Module):
    """Writes into two of its inputs and a buffer; gives one of those inputs too."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(3))

    def forward(self, pair: Mapping[str, Tensor], total: Tensor) -> list[Tensor]:
        self.calls.add_(1)
        product = pair["a"] @ pair["b"]
        pair["b"].mul_(2)
        total.add_(product.sum())
        return [total, product, self.calls + 0, pair["a"]]


class WritesOutsideEngines(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        x.bitwise_and_(1)
        return x + 1


def writing(tmp_path: Path) -> trt_runtime.Program:
    pair = {"a": torch.randn(2, 3), "b": torch.randn(3, 2)}
    outside = torch.export.export(WritesOutsideEngines(), (torch.ones(3, dtype=torch.int32),))
    programs = {
        "outside": outside,
        "two": compiled(Writes(), pair, torch.zeros(())),  # type: ignore[arg-type]
        "free": compiled(Stateless()),
    }
    trt_export.save(trt_export.to_edge(programs), tmp_path / "model.pte")
    return trt_runtime.load(tmp_path / "model.pte")


def test_the_models_own_outputs_come_back_and_its_inputs_are_written(tmp_path: Path) -> None:
    program, model = writing(tmp_path), Writes()
    assert program.signature("two").mutations == ((0, 1), (1, 2))
    assert program.signature("free").mutations == ()
    for b in (torch.randn(3, 2), torch.randn(2, 3).T, torch.randn(6, 4)[::2, ::2]):
        a, total = torch.randn(2, 3), torch.ones((), requires_grad=True)
        ours = [a.clone(), b, total]
        theirs = {"a": a.clone(), "b": b.clone()}, torch.ones(())
        torch.testing.assert_close(program.run(ours, "two"), model(*theirs))
        torch.testing.assert_close([b, total.detach()], [theirs[0]["b"], theirs[1]])
    x = torch.tensor([3, 2, 1], dtype=torch.int32)
    assert program.run([x], "outside")[0].tolist() == [2, 1, 2]
    assert x.tolist() == [1, 0, 1]


def test_an_input_that_cannot_be_written(tmp_path: Path) -> None:
    expanded = torch.zeros(1, 2).expand(3, 2)
    with pytest.raises(
        trt_runtime.InputError, match="input 1: expected a tensor that can be written"
    ):
        writing(tmp_path).run([torch.randn(2, 3), expanded, torch.zeros(())], "two")


def test_info_says_which_outputs_are_inputs(tmp_path: Path) -> None:
    from trt_export.describing import info_lines

    writing(tmp_path)
    info = trt_export.info(tmp_path / "model.pte")
    assert {method.name: method.mutated_inputs for method in info.methods} == {
        "free": (),
        "outside": ((0, 0),),
        "two": ((0, 1), (1, 2)),
    }
    text = "\n".join(info_lines(info))
    assert "output 0: float32 [3, 2], input 1 as the model leaves it" in text
    assert "output 0: int32 [3], input 0 as the model leaves it" in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"two": [[0, 1], [1, 3]]}', "method 'two': expected mutated inputs among 3 inputs"),
        (b'{"two": [[0, 1], [2, 1]]}', "method 'two': expected output 2 to be input 1"),
        (b'{"two": [[0, 1], [1, ""]]', "expected mutated_inputs as JSON"),
    ],
    ids=["index", "type", "JSON"],
)
def test_a_damaged_list_of_mutated_inputs(text: bytes, message: str, tmp_path: Path) -> None:
    writing(tmp_path)
    path = tmp_path / "model.pte"
    whole = b'{"outside": [[0, 0]], "two": [[0, 1], [1, 2]]}'
    data = path.read_bytes()
    assert data.count(whole) >= 1
    path.write_bytes(data.replace(whole, text.ljust(len(whole))))
    with pytest.raises(trt_runtime.ProgramError, match=message):
        trt_runtime.load(path)
