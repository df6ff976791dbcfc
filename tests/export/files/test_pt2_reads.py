"""How much of a `.pt2` is read: what is in it is described, and built, without reading its plans."""

import zipfile
from pathlib import Path

import pytest
import torch
from torch.export import export

import trt_runtime
from export.programs import Calls, execute, one_call
from trt_export import info
from trt_export.building import load_program
from trt_export.errors import FileFormatError
from trt_export.files.pt2 import read_pt2

from .test_pt2 import replace, state_of


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "model.pt2"
    torch.export.save(one_call(), path)
    return path


def bytes_read() -> int:
    """What this process has read by system calls; memory that is mapped does not count."""
    (line,) = (x for x in Path("/proc/self/io").read_text().splitlines() if x.startswith("rchar"))
    return int(line.split()[1])


def large_program(path: Path, size: int) -> Path:
    plan = (b"vtrt" + bytes(12) + size.to_bytes(8, "little")).ljust(size, b"\1")
    record = {
        "name": "engine", "device": "cuda:0",
        "inputs": [{"name": "in_0", "dtype": "float32", "shape": [8], "min": [8], "opt": [8], "max": [8]}],
        "outputs": [{"name": "out_0", "dtype": "float32", "shape": [8]}],
    }  # fmt: skip
    engine = trt_runtime.Engine.from_plan(plan, record).script_object
    torch.export.save(
        export(
            Calls(lambda self, x: execute([x], self.engine)[0], engine=engine), (torch.ones(8),)
        ),
        path,
    )
    return path


def test_a_plan_is_not_read_to_describe_a_file(tmp_path: Path) -> None:
    small, large = (large_program(tmp_path / f"{n}.pt2", n << 20) for n in (2, 32))
    for read in (read_pt2, info):
        amounts = []
        for path in (small, large):
            before = bytes_read()
            read(path)
            amounts.append(bytes_read() - before)
        assert abs(amounts[1] - amounts[0]) < 1 << 16
        assert max(amounts) < 2 << 20


def test_a_plan_is_not_read_to_build_either(tmp_path: Path) -> None:
    """It is mapped where it lies; the first time that its bytes are touched is for its sha256."""
    amounts = []
    load_program(large_program(tmp_path / "first.pt2", 1 << 20))  # imports what it needs
    for n in (2, 32):
        path = large_program(tmp_path / f"{n}.pt2", n << 20)
        before = bytes_read()
        read_pt2(path)
        load_program(path)
        amounts.append(bytes_read() - before)
    assert abs(amounts[1] - amounts[0]) < 1 << 16


def test_a_plan_as_text_is_read_once(tmp_path: Path) -> None:
    """Up to trt-runtime 0.4 a state holds its plan in base64."""
    path, size = large_program(tmp_path / "model.pt2", 1 << 10), 8 << 20
    with zipfile.ZipFile(path) as archive:
        (member,) = (
            name for name in archive.namelist() if "custom_obj_0" in name and "json" not in name
        )
    slots = ["10", "engine", "0%0%0%0%", "A" * size, *[""] * 9]
    replace(path, member, state_of(slots))
    before = bytes_read()
    (stored,) = read_pt2(path).engines
    assert stored.state == slots
    assert size < bytes_read() - before < 1.2 * size


@pytest.mark.parametrize("damage", ["offset", "size"])
def test_a_member_that_is_not_where_it_is_said_to_be(saved: Path, damage: str) -> None:
    with zipfile.ZipFile(saved) as archive:
        (member,) = (
            x
            for x in archive.infolist()
            if "custom_obj_0" in x.filename and "json" not in x.filename
        )
    data = bytearray(saved.read_bytes())
    entry = data.rindex(member.filename.encode()) - 46  # the directory's
    assert data[entry : entry + 4] == b"PK\1\2"
    at, value = (42, member.header_offset + 1) if damage == "offset" else (24, 1 << 30)
    data[entry + at : entry + at + 4] = value.to_bytes(4, "little")
    saved.write_bytes(data)
    with pytest.raises(FileFormatError, match=r"is no readable \.pt2"):
        read_pt2(saved)
