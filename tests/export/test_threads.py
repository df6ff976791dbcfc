"""Exports of several threads at once give what they give one after the other."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

import executorch_noise  # noqa: F401 - imports ExecuTorch without its warnings
import trt_export
import trt_runtime
from lowering import MORE_WARNINGS
from trt_export import one_at_a_time
from trt_export.compiling import CompileReport

pytestmark = [pytest.mark.filterwarnings(text) for text in MORE_WARNINGS]


class Scale(nn.Module):
    def __init__(self, factor: float) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.factor + x[:, :1].cumsum(0)


class Doubled(nn.Module):
    """With a derived dimension, which is hidden from torch while a program is decomposed and lowered."""

    def forward(self, x: Tensor) -> Tensor:
        return x[0::2] * x[1::2]


def programs() -> dict[str, ExportedProgram]:
    torch.manual_seed(0)
    half = Dim("half", min=1, max=8)
    batch = Dim("batch", min=2, max=16)
    x = torch.ones(4, 8)
    found = {
        f"scale{factor}": torch.export.export(
            Scale(factor).eval().requires_grad_(False), (x,), dynamic_shapes=({0: batch},)
        )
        for factor in (2.0, 3.0)
    }
    found["doubled"] = torch.export.export(Doubled(), (x,), dynamic_shapes=({0: 2 * half},))
    return found


def exported(program: ExportedProgram, path: Path) -> Path:
    compiled = trt_export.compile(program, on_report=lambda report: None)
    trt_export.save(trt_export.to_edge(compiled), path)
    return path


X = torch.randn(6, 8)


def test_different_and_the_same_programs_at_once(tmp_path: Path) -> None:
    sources = programs()
    constraints = {name: dict(program.range_constraints) for name, program in sources.items()}
    alone = {
        name: exported(program, tmp_path / f"{name}-alone.pte").read_bytes()
        for name, program in sources.items()
    }
    jobs = [(name, number) for number in range(3) for name in sources]
    with ThreadPoolExecutor(len(jobs)) as pool:
        paths = list(pool.map(lambda job: exported(sources[job[0]], tmp_path / f"{job}.pte"), jobs))
    for (name, _), path in zip(jobs, paths, strict=True):
        assert len(path.read_bytes()) == len(alone[name])
        expected = sources[name].module()(X)
        torch.testing.assert_close(trt_runtime.load(path).run([X])[0], expected)
        assert sources[name].range_constraints == constraints[name]


def test_one_compiled_program_lowered_by_several_threads(tmp_path: Path) -> None:
    compiled = trt_export.compile(programs()["doubled"])

    def lowered(number: int) -> Path:
        path = tmp_path / f"{number}.pte"
        trt_export.save(trt_export.to_edge(compiled), path)
        return path

    with ThreadPoolExecutor(4) as pool:
        for path in pool.map(lowered, range(4)):
            torch.testing.assert_close(trt_runtime.load(path).run([X])[0], X[0::2] * X[1::2])


def test_no_two_exports_are_at_work_at_once() -> None:
    """Each step of an export is told to a callback, whosever turn it is."""
    sources = programs()
    turns: list[int] = []

    def work(number: int) -> None:
        def step(*_: Any) -> None:
            turns.append(number)
            time.sleep(0.001)  # lets another thread go on, if it may

        compiled = trt_export.compile(
            sources["doubled"], on_progress=step, on_report=lambda report: None
        )
        turns.append(-1)  # it may change hands between the two
        trt_export.to_edge(compiled, on_progress=step)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    changes = sum(before != after for before, after in itertools.pairwise(turns))
    assert changes <= 4 * 3  # two spans of each thread, and what marks their borders


def test_a_callback_and_a_signal_handler_may_export_in_the_middle_of_an_export() -> None:
    sources = programs()
    results: list[ExportedProgram] = []

    def handle(*_: Any) -> None:
        results.append(trt_export.compile(sources["scale2.0"], on_report=lambda report: None))

    before = signal.signal(signal.SIGUSR1, handle)
    try:

        def step(phase: str, done: int, total: int) -> None:
            if phase == "onnx" and not results:
                os.kill(os.getpid(), signal.SIGUSR1)

        reports: list[CompileReport] = []
        outer = trt_export.compile(sources["doubled"], on_progress=step, on_report=reports.append)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert reports
    assert len(results) == 1
    torch.testing.assert_close(outer.module()(X), X[0::2] * X[1::2])
    torch.testing.assert_close(results[0].module()(X), sources["scale2.0"].module()(X))


def test_a_child_process_does_not_wait_for_a_thread_of_its_parent() -> None:
    released, owned = threading.Event(), threading.Event()

    @one_at_a_time.one_at_a_time
    def own() -> None:
        owned.set()
        released.wait()

    thread = threading.Thread(target=own)
    thread.start()
    owned.wait()
    child = os.fork()
    if child == 0:
        free: Callable[..., bool] = one_at_a_time._lock.acquire
        os._exit(0 if free(timeout=5) else 1)
    released.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
