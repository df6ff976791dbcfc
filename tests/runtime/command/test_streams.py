"""Exit codes, closed streams and files that are none, as a shell sees them."""

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import trt_runtime
from trt_runtime.arrays import read_arrays

from .conftest import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.ones((3, 8), np.float32))
    return path


@pytest.mark.parametrize("closing", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_do_not_keep_the_file_from_being_written(
    closing: str, doubler: Path, inputs: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.npz"
    script = f'"{sys.executable}" -m trt_runtime run "$1" --inputs "$2" --output "$3" {closing}'
    done = subprocess.run(
        ["sh", "-c", script, "sh", doubler, inputs, output],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert "Error" not in done.stderr
    with np.load(output) as written:
        assert (written["output_0"] == 2).all()


def test_a_failure_without_stderr_is_still_a_failure(doubler: Path, tmp_path: Path) -> None:
    script = f'"{sys.executable}" -m trt_runtime run "$1" --inputs "$2" 2>&-'
    done = subprocess.run(
        ["sh", "-c", script, "sh", doubler, tmp_path / "none.npz"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("name", ["run", "check"])
@pytest.mark.parametrize("program", ["none.pte", "", ".", "/dev/zero", "x" * 5000, "a\0b"])
def test_a_file_that_cannot_be_read_is_wrong_usage(
    name: str, program: str, inputs: Path, command: Command
) -> None:
    more = ("--inputs", inputs) if name == "run" else ()
    code, out, err = command(name, program, *more)
    assert (code, out) == (2, "")
    assert "expected" in err


def test_data_and_inputs_too(doubler: Path, inputs: Path, tmp_path: Path, command: Command) -> None:
    none = tmp_path / "none"
    assert command("run", doubler, "--inputs", inputs, "--data", none)[0] == 2
    assert command("check", doubler, "--data", none)[0] == 2
    assert command("run", doubler, "--inputs", tmp_path)[0] == 2
    assert command("run", doubler, "--inputs", "/dev/zero")[0] == 2


def test_names_in_a_message_do_not_steer_the_terminal(
    doubler: Path, inputs: Path, tmp_path: Path, command: Command
) -> None:
    damaged = tmp_path / "a\x1b[31m.pte"
    damaged.write_bytes(bytes(100))
    _, _, err = command("run", damaged, "--inputs", inputs)
    assert "\x1b" not in err
    assert "\ufffd[31m.pte" in err


def npy(header: str, data: bytes = b"") -> bytes:
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def zipped(content: bytes, name: str = "x.npy") -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return file.getvalue()


def good() -> bytes:
    file = io.BytesIO()
    np.savez(file, x=np.ones((3, 8), np.float32))
    return file.getvalue()


def flagged(offset: int, value: int) -> bytes:
    """A member whose local and central headers say something else of it."""
    data = bytearray(good())
    for magic, place in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        data[data.index(magic) + place + offset] = value
    return bytes(data)


HEADERS = (
    "{'descr': '<f4', 'fortran_order': False, 'shape': (",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 8",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (10**30,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000000,)}",
    "{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999999999999,)}",
    "{'descr': ',', 'fortran_order': False, 'shape': (4,)}",
    "{'descr': ('<f4', 1, 2, 3, 4), 'fortran_order': False, 'shape': (4,)}",
    "(" * 4000,
    "\x00",
)


@pytest.mark.parametrize(
    "content",
    [
        *(zipped(npy(header)) for header in HEADERS),
        zipped(b"text", "x.txt"),
        flagged(0, 1),  # encrypted
        flagged(2, 97),  # an unknown compression
        good()[:-40],
    ],
    ids=lambda value: "",
)
def test_whatever_is_wrong_with_an_npz_is_one_error(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    with pytest.raises(trt_runtime.errors.InputError, match=r"in\.npz.*expected"):
        read_arrays(path)


def test_numbers_of_another_byte_order_are_read_right(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, np.arange(6, dtype=">f4").reshape(2, 3), np.array(7, ">i8"))
    (_, first), (_, second) = read_arrays(path)
    assert first.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert (second.item(), second.shape) == (7, ())
