"""Ctrl-C during a run, and the end of the process while a daemon thread is in one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime.delegate.engine import DelegateEngine
from trt_runtime.executors.bound import Bound

from .programs import WITHOUT_COMPILER, scaling_pte
from .test_threads import slow  # noqa: F401 - a fixture

X = torch.ones(2, 8)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_what_is_no_error_leaves_a_run_as_it_is(
    kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = scaling_pte(tmp_path / "model.pte")
    now = object()

    def interrupted() -> None:
        raise kind(now)

    with monkeypatch.context() as patch:
        patch.setattr(DelegateEngine, "bind", lambda *_: Bound(interrupted))
        with pytest.raises(kind) as caught:
            trt_runtime.load(path).run([X])
        assert caught.value.args == (now,)
    assert torch.equal(trt_runtime.load(path).run([X])[0], 2 * X)


def test_what_is_no_error_leaves_a_first_run_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = trt_runtime.load(scaling_pte(tmp_path / "model.pte", 23))
    with monkeypatch.context() as patch:
        patch.setattr("trt_runtime.delegate.engine.share_executor", interrupt)
        with pytest.raises(KeyboardInterrupt):
            program.run([X])
    assert torch.equal(program.run([X])[0], 23 * X)


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


LEAVING = """
import sys, threading, time
import torch, trt_runtime

program = trt_runtime.load(sys.argv[1])
x = torch.ones(64, 128)
program.run([x])

def work():
    while True:
        program.run([x])

threading.Thread(target=work, daemon=True).start()
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("seconds", ["0.01", "0.02", "0.03"])
def test_a_daemon_thread_in_a_run_does_not_abort_the_process(
    seconds: str,
    slow: Path,  # noqa: F811
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER + LEAVING, slow, seconds],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stderr.count("terminate called")) == (0, 0), done.stderr
