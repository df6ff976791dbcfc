"""`trt-runtime run`: arrays in, arrays out."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import trt_runtime

from .conftest import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.arange(-12, 12, dtype=np.float32).reshape(3, 8))
    return path


def test_outputs_are_written_and_described(
    doubler: Path, arrays: Path, tmp_path: Path, command: Command
) -> None:
    code, out, _ = command("run", doubler, "--inputs", arrays, "--output", tmp_path / "out.npz")
    assert code == 0
    assert out.startswith("output_0: float32 [3, 8]: 0, 0, 0, 0, ...\nwrote ")
    with np.load(tmp_path / "out.npz") as written, np.load(arrays) as given:
        assert written.files == ["output_0"]
        np.testing.assert_array_equal(written["output_0"], np.maximum(given["x"], 0) * 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.npz", "out.npz"]


def test_json_for_programs(doubler: Path, arrays: Path, command: Command) -> None:
    code, out, _ = command("run", doubler, "--inputs", arrays, "--json")
    assert code == 0
    assert json.loads(out) == {
        "method": "forward",
        "outputs": [{"name": "output_0", "dtype": "float32", "shape": [3, 8]}],
        "written": None,
    }


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((3, 9), np.float32), "expected 8 in dimension 1"),
        (np.zeros((3, 8)), "expected dtype torch.float32, found torch.float64"),
        (np.zeros(8, np.float32), "expected rank 2"),
        (np.zeros((17, 8), np.float32), "up to [16, 8], found [17, 8]"),
    ],
)
def test_inputs_that_do_not_fit_are_an_answer(
    array: np.ndarray, words: str, doubler: Path, tmp_path: Path, command: Command
) -> None:
    np.savez(tmp_path / "in.npz", array)
    output = tmp_path / "out.npz"
    output.write_text("as it was")
    code, out, err = command("run", doubler, "--inputs", tmp_path / "in.npz", "--output", output)
    assert (code, out) == (1, "")
    assert words in err
    assert output.read_text() == "as it was"


def test_too_few_inputs_and_no_such_method(
    doubler: Path, arrays: Path, tmp_path: Path, command: Command
) -> None:
    np.savez(tmp_path / "none.npz")
    code, _, err = command("run", doubler, "--inputs", tmp_path / "none.npz")
    assert code == 1
    assert f"{tmp_path / 'none.npz'}: expected 1 arrays, one for each input, found 0" in err
    np.savez(tmp_path / "two.npz", np.zeros((3, 8), np.float32), np.zeros((3, 8), np.float32))
    code, _, err = command("run", doubler, "--inputs", tmp_path / "two.npz")
    assert code == 1
    assert f"{tmp_path / 'two.npz'}: expected 1 arrays, one for each input, found 2" in err
    assert "numpy.savez(file, x=...)" in err
    for method in ("backward", ""):
        code, _, err = command("run", doubler, "--inputs", arrays, "--method", method)
        assert code == 2
        assert f"expected one of the methods of {doubler}, forward, found {method!r}" in err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "found an empty file"),
        (b"not an npz", "found another kind of file"),
        (b"PK\x03\x04 cut off", "damaged or cut off"),
    ],
)
def test_what_is_no_npz_does_not_fit(
    content: bytes, words: str, doubler: Path, tmp_path: Path, command: Command
) -> None:
    path = tmp_path / "in.npz"
    path.write_bytes(content)
    code, _, err = command("run", doubler, "--inputs", path)
    assert (code, err.count("\n")) == (1, 1)
    assert f"{path}: expected" in err
    assert words in err


def test_an_npy_is_named(doubler: Path, tmp_path: Path, command: Command) -> None:
    np.save(tmp_path / "in.npy", np.zeros((3, 8), np.float32))
    code, _, err = command("run", doubler, "--inputs", tmp_path / "in.npy")
    assert code == 1
    assert "found an .npy" in err


def test_a_damaged_npz_is_an_answer(
    doubler: Path, arrays: Path, tmp_path: Path, command: Command
) -> None:
    whole = arrays.read_bytes()
    path = tmp_path / "damaged.npz"
    for size in range(4, len(whole), 7):
        path.write_bytes(whole[:size])
        code, _, err = command("run", doubler, "--inputs", path)
        assert (code, "damaged or cut off" in err) == (1, True), size
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        code, _, err = command("run", doubler, "--inputs", path)
        assert code in (0, 1), (
            place,
            err,
        )  # 0: a byte that is not read, such as the time of writing


def test_objects_and_texts_are_no_inputs(doubler: Path, tmp_path: Path, command: Command) -> None:
    for array in (np.array([{"a": 1}]), np.array(["a"])):
        np.savez(tmp_path / "in.npz", array)
        code, _, err = command("run", doubler, "--inputs", tmp_path / "in.npz")
        assert code == 1
        assert "expected" in err


def test_usage_errors_are_exit_code_2(
    doubler: Path, arrays: Path, tmp_path: Path, command: Command
) -> None:
    assert command("run", doubler)[0] == 2
    assert command()[0] == 2
    assert command("run", doubler, "--inputs", tmp_path / "none.npz")[0] == 2
    assert command("run", doubler, "--inputs", tmp_path)[0] == 2
    nowhere = tmp_path / "none" / "out.npz"
    assert command("run", doubler, "--inputs", arrays, "--output", nowhere)[0] == 2


@pytest.mark.parametrize("name", ["run", "check"])
def test_help_shows_an_example(name: str, command: Command) -> None:
    code, out, _ = command(name, "--help")
    assert code == 0
    assert f"example: trt-runtime {name} model.pte" in out


def test_an_engine_that_does_not_run_here_is_an_answer_of_its_own(
    for_a_gpu: Path, arrays: Path, tmp_path: Path
) -> None:
    """In a process of its own: what a shell sees."""
    names = trt_runtime.load(for_a_gpu).signature().names
    with np.load(arrays) as given:
        np.savez(tmp_path / "named.npz", **dict.fromkeys(names, given["x"]))
    arrays = tmp_path / "named.npz"
    done = subprocess.run(
        [sys.executable, "-m", "trt_runtime", "run", for_a_gpu, "--inputs", arrays],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "found 0 CUDA devices" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_bfloat16_and_numbers_can_be_written(tmp_path: Path) -> None:
    from trt_runtime.arrays import write_arrays

    write_arrays(tmp_path / "out.npz", [torch.ones(2, dtype=torch.bfloat16), 3, True])
    with np.load(tmp_path / "out.npz") as written:
        assert [written[name].tolist() for name in written.files] == [[1.0, 1.0], 3, True]


def test_the_command_has_the_version_of_the_package(command: Command) -> None:
    assert command("--version")[1] == f"trt-runtime {trt_runtime.__version__}\n"
