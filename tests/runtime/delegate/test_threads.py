"""Threads: a loaded program each runs side by side, one program waits, ExecuTorch's own method refuses."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading
from pathlib import Path

import numpy
import pytest
import torch
from onnx import numpy_helper

import trt_runtime
from lowering import lower

from ..building import binding, model, plan_of, record_of
from .programs import WITHOUT_COMPILER, Runs, export, scaling_pte, without_limits

WIDTH = 128
DEPTH = 40


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x -> x + x, by way of many products with the identity: ONNX Runtime gives the GIL away for a while."""
    names = ["in_0", *(f"h{index}" for index in range(DEPTH))]
    nodes = [("MatMul", [one, "identity"], [other]) for one, other in itertools.pairwise(names)]
    inputs = [binding("in_0", "float32", ["i0d0", WIDTH], {0: (1, 64)})]
    outputs = [binding("out_0", "float32", ["i0d0", WIDTH])]
    graph = model([*nodes, ("Add", ["in_0", names[-1]], ["out_0"])], inputs, outputs)
    identity = numpy.eye(WIDTH, dtype=numpy.float32)
    graph.graph.initializer.append(numpy_helper.from_array(identity, "identity"))
    engine = trt_runtime.Engine.from_plan(
        plan_of(graph.SerializeToString()), record_of(inputs, outputs)
    )
    program = export(Runs(engine), torch.ones(2, WIDTH))
    return without_limits(lower(program, tmp_path_factory.mktemp("slow") / "slow.pte"))


SCRIPT = """
import sys, threading
import torch, trt_runtime
torch.set_num_threads(1)

def work(index):
    program = trt_runtime.load(sys.argv[1])
    for step in range(60):
        x = torch.full((index + 1, 128), float(step + index))
        (y,) = program.run([x])
        assert torch.equal(y, 2 * x), (index, step)
        if step % 20 == 0:
            sys.stdout.write(f"thread {index} step {step}\\n")  # in one piece, which print is not
            sys.stdout.flush()
        if step % 5 == 0:
            try:
                program.run([torch.ones(1, 64)])
            except trt_runtime.InputError:
                refused.append(index)
    done.append(index)

done, refused = [], []
threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("done", sorted(done))
print("refused", len(refused))
print("loads", trt_runtime.stats()["executor_loads"])
"""


@pytest.mark.parametrize(("log", "logged"), [("", 0), ("all", 96)])
def test_eight_threads_with_a_program_each(
    log: str, logged: int, slow: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ExecuTorch swaps the buffers of std::cout for each call: threads that overlap lost their output, and crashed.

    Its log goes through Python, which may give the GIL away: calls of several threads that failed at once did
    the same, with and without a delegate.
    """
    monkeypatch.setenv("TRT_RUNTIME_EXECUTORCH_LOG", log)
    result = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER + SCRIPT, str(slow)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    lines = [
        line
        for line in result.stdout.splitlines()
        if line.startswith(("thread", "done", "refused", "loads"))
    ]
    assert sorted(lines[:-3]) == sorted(
        f"thread {index} step {step}" for index in range(8) for step in (0, 20, 40)
    )
    assert lines[-3:] == ["done [0, 1, 2, 3, 4, 5, 6, 7]", "refused 96", "loads 1"]
    # The log is whole too, where it says what exceptions say.
    assert result.stderr.count("expected 128 in dimension 1") == logged


def in_threads(count: int, work: object) -> None:
    threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]  # type: ignore[arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_calls_of_one_program_wait_for_each_other(slow: Path) -> None:
    program = trt_runtime.load(slow)
    right: list[bool] = []

    def work(index: int) -> None:
        for step in range(30):
            x = torch.full((index + 1, WIDTH), float(step + index))
            (y,) = program.run([x])
            right.append(torch.equal(y, 2 * x))

    in_threads(4, work)
    assert right == [True] * 120


def test_executorchs_own_method_refuses_a_second_thread_or_is_right(slow: Path, capfd) -> None:
    """The engine is the method's first instruction: there ExecuTorch lets a second thread set its inputs."""
    from executorch.runtime import Runtime

    trt_runtime.register_delegate()
    method = Runtime.get().load_program(slow).load_method("forward")
    right: list[bool] = []
    refused: list[str] = []

    def work(index: int) -> None:
        for step in range(150):
            x = torch.full((index + 1, WIDTH), float(step + 1000 * index))
            try:
                (y,) = method.execute([x])
            except RuntimeError as error:
                refused.append(str(error))
            else:
                right.append(torch.equal(y, 2 * x))

    in_threads(3, work)
    assert all(right)
    assert len(right) + len(refused) == 450
    assert refused  # else the calls did not meet, and nothing was tested
    assert all("0x2" in text for text in refused)
    x = torch.ones(3, WIDTH)
    assert torch.equal(method.execute([x])[0], 2 * x)
    assert "load the method once for each thread" in capfd.readouterr().err


def test_programs_may_be_loaded_and_dropped_by_any_thread(tmp_path: Path, counted) -> None:
    path = scaling_pte(tmp_path / "model.pte", 19)
    right: list[bool] = []

    def work(index: int) -> None:
        for _ in range(15):
            x = torch.randn(index + 1, 8)
            right.append(torch.equal(trt_runtime.load(path).run([x])[0], 19 * x))

    in_threads(4, work)
    assert right == [True] * 60
