"""ExecuTorch's log: what went wrong is said once, and where it goes is the user's choice."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from trt_runtime import _native
from trt_runtime.delegate import registration
from trt_runtime.errors import UsageError

from .programs import WITHOUT_COMPILER, scaling_pte, without_limits

SCRIPT = """
import sys
import torch, trt_runtime
refused = (torch.ones(2, 9), torch.ones(2, 8, dtype=torch.int64), torch.ones(70, 8), torch.ones(2))
program = trt_runtime.load(sys.argv[1])
for x in refused:
    try:
        program.run([x])
    except trt_runtime.InputError as error:
        print(error)
sys.stdout.flush()
print("-- executorch.runtime", file=sys.stderr, flush=True)
from executorch.runtime import Runtime
method = Runtime.get().load_program(sys.argv[1]).load_method("forward")
try:
    method.execute([torch.ones(2, 9)])
except RuntimeError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return without_limits(scaling_pte(tmp_path_factory.mktemp("log") / "model.pte"))


def logged(path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """What a program's refusals, and those of ExecuTorch used directly, leave on stderr."""
    monkeypatch.setenv("TRT_RUNTIME_EXECUTORCH_LOG", mode)
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_COMPILER + textwrap.dedent(SCRIPT), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 5
    program, directly = done.stderr.split("-- executorch.runtime\n")
    return program, directly


def test_a_refused_input_is_said_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, directly = logged(path, "", monkeypatch)
    assert program == ""
    assert "expected 8 in dimension 1" in directly  # whose caller gets nothing but a number


def test_all_messages(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in logged(path, "all", monkeypatch):
        assert "expected 8 in dimension 1" in text
        assert "CALL_DELEGATE execute failed" in text


def test_no_message(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert logged(path, "off", monkeypatch) == ("", "")


def test_the_log_of_executorch_itself(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in logged(path, "executorch", monkeypatch):
        assert "expected 8 in dimension 1" in text
        assert "CALL_DELEGATE execute failed" in text


def test_another_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_RUNTIME_EXECUTORCH_LOG", "loud")
    with pytest.raises(UsageError, match="expected all, off or executorch, found 'loud'"):
        registration.register_delegate()


def test_what_nobody_takes_is_written_at_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    from .c_interface import LIBRARY

    def log(text: str) -> None:
        LIBRARY.trt_delegate_log(b"method.cpp", 12, text.encode())

    _native.begin_log_capture()
    log("first")
    _native.begin_log_capture()  # a program that is run by a signal handler
    log("second")
    _native.end_log_capture()
    assert capfd.readouterr().err == ""
    _native.end_log_capture()
    assert capfd.readouterr().err == "[method.cpp:12] first\n[method.cpp:12] second\n"
    _native.begin_log_capture()
    log("third")
    assert _native.take_log() == "[method.cpp:12] third\n"
    for _ in range(2000):
        log("x" * 100)
    assert len(_native.take_log()) <= 64 * 1024
    _native.end_log_capture()
    assert capfd.readouterr().err == ""
