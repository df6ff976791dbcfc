"""Anonymous memory over many runs and many loads: it stays what it was."""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import trt_runtime

from .programs import scaling_pte

pytestmark = pytest.mark.memory


_libc = ctypes.CDLL(None)


def anonymous_kilobytes() -> int:
    gc.collect()
    _libc.malloc_trim(0)
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("RssAnon")
    ]
    return int(line.split()[1])


def grown_kilobytes(work: Callable[[], None], warm: int, times: int) -> int:
    for _ in range(warm):
        work()
    before = anonymous_kilobytes()
    for _ in range(times):
        work()
    return anonymous_kilobytes() - before


@pytest.mark.parametrize("sizes", [(64,), tuple(range(40, 60))], ids=["bound once", "bound anew"])
def test_a_thousand_runs_take_no_memory(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """An output of 64 x 8 floats that each run kept would be 2 MB."""
    program = trt_runtime.load(scaling_pte(tmp_path / "model.pte"))
    given = [torch.randn(size, 8) for size in sizes]

    def work() -> None:
        for x in given:
            assert torch.equal(program.run([x])[0], 2 * x)

    assert grown_kilobytes(work, max(1, 200 // len(sizes)), 1000 // len(sizes)) < 512


def test_a_thousand_refused_runs_take_no_memory(tmp_path: Path, capfd) -> None:
    program = trt_runtime.load(scaling_pte(tmp_path / "model.pte"))
    wrong = torch.randn(3, 9)

    def work() -> None:
        with pytest.raises(trt_runtime.InputError):
            program.run([wrong])

    assert grown_kilobytes(work, 200, 1000) < 512


def test_two_hundred_loads_take_no_memory(tmp_path: Path, counted) -> None:
    path = scaling_pte(tmp_path / "model.pte")
    x = torch.randn(64, 8)

    def work() -> None:
        assert torch.equal(trt_runtime.load(path).run([x])[0], 2 * x)

    with counted() as grown:
        taken = grown_kilobytes(work, 20, 200)
    assert grown["executor_loads"] == 220  # each was unloaded again
    assert taken < 2048


def test_two_hundred_refused_loads_take_no_memory(tmp_path: Path, capfd) -> None:
    path = scaling_pte(tmp_path / "model.pte")
    data = bytearray(path.read_bytes())
    data[data.index(b"TR01") + 3] += 7
    path.write_bytes(data)
    program = trt_runtime.load(path)

    def work() -> None:
        with pytest.raises(trt_runtime.ProgramError, match="magic"):
            program.run([torch.ones(1, 8)])

    assert grown_kilobytes(work, 20, 200) < 512
