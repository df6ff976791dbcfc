"""Anonymous memory over many runs and many loads: it stays what it was."""

from __future__ import annotations

import ctypes
import gc
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from onnx import TensorProto

import trt_runtime

from ..building import binding, model, plan_of, record_of, written_aligned
from .programs import WITHOUT_COMPILER, payload_of, scaling_pte

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


@pytest.mark.parametrize(("format", "magic"), [("tr01", b"TR01"), ("named-data", b"TRTN")])
def test_two_hundred_refused_loads_take_no_memory(
    format: str, magic: bytes, tmp_path: Path, capfd
) -> None:
    path = scaling_pte(tmp_path / "model.pte", format=format)
    data = bytearray(path.read_bytes())
    data[data.index(magic) + 3] += 7
    path.write_bytes(data)
    program = trt_runtime.load(path)

    def work() -> None:
        with pytest.raises(trt_runtime.ProgramError, match="magic"):
            program.run([torch.ones(1, 8)])

    assert grown_kilobytes(work, 20, 200) < 512


TABLE = f"""
{WITHOUT_COMPILER}
import ctypes, gc, json, mmap, pathlib, struct, sys
import torch
from trt_runtime import _native, stats
from trt_runtime.delegate.engine import DelegateEngine

def anonymous():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = pathlib.Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in status if line.startswith("RssAnon")).split()[1])

def opened(path):
    with open(path, "rb") as file:
        payload = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    fields, start = _native.read_payload(payload)
    return DelegateEngine(fields, _native.share_plan(payload[start:]))

def run(engine):
    index, row = torch.tensor([7, 12345]), torch.empty(2, 1024)
    raws = [(t.data_ptr(), number, list(t.shape)) for t, number in ((index, 4), (row, 6))]
    engine.bind(raws[:1], raws[1:])()
    assert row.sum(1).tolist() == [7 * 1024, 0]

small, large = sys.argv[1:]
first = opened(small)  # whatever is allocated once
run(first)
before = anonymous()
engine = opened(large)
run(engine)
print(json.dumps([anonymous() - before, stats()["plan_copies"]]))
"""


def table_payload(path: Path, rows: int) -> Path:
    """A payload in a file of its own: a table of `rows` rows of 4 KiB of which row 7 is all sevens."""
    inputs = [binding("index", "int64", [2], {})]
    outputs = [binding("row", "float32", [2, 1024])]
    table = bytearray(rows * 4096)
    table[7 * 4096 : 8 * 4096] = struct.pack("<1024f", *[7] * 1024)
    weight = TensorProto(name="table", data_type=1, dims=[rows, 1024], raw_data=bytes(table))
    proto = model([("Gather", ["table", "index"], ["row"])], inputs, outputs, [weight])
    path.write_bytes(payload_of(plan_of(written_aligned(proto)), record_of(inputs, outputs)))
    return path


def test_a_table_of_256_megabytes_is_not_copied(tmp_path: Path) -> None:
    files = [table_payload(tmp_path / str(rows), rows) for rows in (20_000, 1 << 16)]
    done = subprocess.run(
        [sys.executable, "-c", TABLE, *map(str, files)], capture_output=True, text=True, check=True
    )
    kilobytes, copies = json.loads(done.stdout)
    assert kilobytes < 16 * 1024
    assert copies == 0
