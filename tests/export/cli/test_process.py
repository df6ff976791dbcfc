"""What a shell sees of `trt-export`: interruptions, closed and full streams, exit codes of files."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from interrupting import interrupt_after
from trt_export.cli import main

SCRIPT = Path(sys.executable).parent / "trt-export"
INTERRUPTED = (130, "", "trt-export: interrupted; no file was left half-written\n")


@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("info", "trt_export.interrupts"),
        ("info", "trt_export.errors"),
        ("info", "trt_export.cli"),
        ("info", "trt_export.inspecting"),
        ("build", "argparse"),
        ("build", "numpy"),
        ("build", "torch.types"),
        ("build", "onnx"),
        ("build", "executorch.exir.schema"),
        ("doctor", "torch.types"),
        ("doctor", "onnxscript.ir"),
    ],
)
@pytest.mark.parametrize("start", [("-m", "trt_export"), (SCRIPT,)], ids=["module", "script"])
def test_an_interruption_while_it_starts(
    command: str, module: str, start: tuple[object, ...], pte: Path, plain_pt2: Path, tmp_path: Path
) -> None:
    arguments = {"info": [pte], "build": [plain_pt2, "-o", "out.pte"], "doctor": []}[command]
    found = interrupt_after(module, [*start, command, *arguments], tmp_path)
    assert found == INTERRUPTED
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("delay", [2.0, 4.5])
def test_an_interruption_of_the_work(delay: float, plain_pt2: Path, tmp_path: Path) -> None:
    """Wherever it is by then, or done already."""
    process = subprocess.Popen(
        [sys.executable, "-m", "trt_export", "build", plain_pt2, "-o", "out.pte"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    if process.returncode:
        assert (process.returncode, out, err) == INTERRUPTED
    assert [path.name for path in tmp_path.iterdir()] == ([] if process.returncode else ["out.pte"])


def test_a_signal_that_is_ignored_stays_ignored(pte: Path, tmp_path: Path) -> None:
    """As with nohup, or in the background of a script."""
    script = f"trap '' INT; exec '{sys.executable}' -X importtime -m trt_export info '{pte}'"
    process = subprocess.Popen(
        ["sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.endswith("trt_export.errors\n"):
            process.send_signal(signal.SIGINT)
            break
    out, _ = process.communicate()
    assert process.returncode == 0
    assert "method forward" in out


def test_nothing_is_handled_for_a_program_that_imports_the_package() -> None:
    script = """
import signal
before = signal.getsignal(signal.SIGINT)
import trt_export, trt_export.cli
assert trt_export.cli.main(["info", "none.pte"]) == 2
assert signal.getsignal(signal.SIGINT) is before is signal.default_int_handler
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def shell(arguments: str, redirection: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """The command with its streams as a shell's redirection has them."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; '{SCRIPT}' {arguments} {redirection}"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


COMMANDS = ("info MODEL.pte", "info MODEL.pte --json", "doctor", "--help", "build --help")


@pytest.mark.parametrize("arguments", COMMANDS)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams(arguments: str, closed: str, pte: Path, tmp_path: Path) -> None:
    done = shell(arguments.replace("MODEL.pte", str(pte)), closed, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_build_without_streams(plain_pt2: Path, tmp_path: Path) -> None:
    done = shell(f"build {plain_pt2} -o out.pte", "<&- >&- 2>&-", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert main(["info", str(tmp_path / "out.pte")]) == 0


@pytest.mark.parametrize("arguments", [*COMMANDS, "--version"])
def test_a_full_disk_behind_stdout(arguments: str, pte: Path, tmp_path: Path) -> None:
    done = shell(arguments.replace("MODEL.pte", str(pte)), ">/dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "trt-export: error: the system refused: No space left on device\n"


@pytest.mark.parametrize("full", ["2>/dev/full", "2>&-"])
def test_without_stderr_the_exit_code_tells(full: str, pte: Path, tmp_path: Path) -> None:
    assert shell(f"info {pte}", full, tmp_path).returncode == 0
    assert shell("info none.pte", full, tmp_path).returncode == 2
    assert shell("info", full, tmp_path).returncode == 2
    assert shell("info /proc/self/status", full, tmp_path).returncode == 1


def test_a_reader_that_goes_away(pte: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        done = subprocess.run(
            [sys.executable, "-m", "trt_export", "info", str(pte)],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (1, "")


@pytest.mark.parametrize("command", ["info", "build"])
@pytest.mark.parametrize(
    "name", ["none.pt2", "", ".", "/dev/zero", "fifo", "x" * 5000, "a\0b", "/proc/1/mem"]
)
def test_a_file_that_cannot_be_read_is_wrong_usage(
    command: str,
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    more = ["-o", "out.pte"] if command == "build" else []
    try:
        code = main([command, name, *more])
    except SystemExit as exit_:
        code = int(exit_.code or 0)
    out, err = capsys.readouterr()
    assert (code, out) == (2, "")
    assert "expected" in err
    assert repr(name)[1:-1] in err


def test_errors_are_text_on_stderr_with_json_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.pte").write_bytes(bytes(100))
    assert main(["info", str(tmp_path / "bad.pte"), "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("trt-export: error: ")
    with pytest.raises(json.JSONDecodeError):
        json.loads(err)


@pytest.mark.parametrize("arguments", [[], ["build"], ["info"], ["doctor"]])
def test_the_exit_codes_are_in_the_help(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([*arguments, "--help"])
    text = capsys.readouterr().out
    for code in (0, 1, 2, 130):
        assert f"\n  {code} " in text
    assert "also with --json" in text
