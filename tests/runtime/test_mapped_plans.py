"""A plan in a file is mapped: it takes no memory of the process."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from trt_runtime import Engine, PlanError

from .building import RELU_PLAN, relu_engine, relu_record

LARGE = 64 * 2**20


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    path = tmp_path / "engine.plan"
    path.write_bytes(RELU_PLAN)
    return path


def large_record(size: int) -> dict:
    return relu_record(
        device="cuda:0", plan={"format": "tensorrt-rtx", "size": size, "sha256": "0" * 64}
    )


def mapped_lines(path: Path) -> list[str]:
    return [line for line in Path("/proc/self/maps").read_text().splitlines() if str(path) in line]


@pytest.mark.parametrize("path_type", [str, Path])
def test_a_file_is_mapped_not_copied(path_type, plan_file, counted) -> None:
    with counted() as grown:
        engine = Engine.from_plan(path_type(plan_file), relu_record())
    assert grown == {"plan_hashes": 1}
    (line,) = mapped_lines(plan_file)
    start, end = (int(address, 16) for address in line.split()[0].split("-"))
    assert start <= engine.plan_tensor.data_ptr() < end
    assert bytes(engine.plan) == RELU_PLAN
    assert torch.equal(engine(torch.ones(1, 8))[0], torch.ones(1, 8))


def test_the_file_is_let_go_with_the_last_that_holds_the_plan(plan_file) -> None:
    before = len(os.listdir("/proc/self/fd"))
    engine = Engine.from_plan(plan_file, relu_record())
    assert len(os.listdir("/proc/self/fd")) == before  # a mapping needs no open file
    tensor = engine.plan_tensor[3:]
    del engine
    gc.collect()
    assert mapped_lines(plan_file)
    del tensor
    gc.collect()
    assert not mapped_lines(plan_file)


@pytest.mark.memory
def test_a_mapped_plan_takes_no_anonymous_memory(tmp_path, counted) -> None:
    path = tmp_path / "large.plan"
    path.write_bytes(b"vtrt" + bytes(LARGE - 4))
    trim = ctypes.CDLL(None).malloc_trim

    def anonymous() -> int:
        gc.collect()
        trim(0)
        (line,) = [
            line
            for line in Path("/proc/self/status").read_text().splitlines()
            if line.startswith("RssAnon")
        ]
        return int(line.split()[1]) * 1024

    before = anonymous()
    with counted() as grown:
        engine = Engine.from_plan(path, large_record(LARGE))
        assert engine.plan_tensor.count_nonzero() == 4  # every byte was read
        assert len(engine.plan_sha256) == 64
    assert grown == {"plan_hashes": 1}
    assert anonymous() - before < 4 * 2**20


def test_a_file_that_is_replaced_or_deleted_stays_what_it_was(plan_file, tmp_path) -> None:
    engine = Engine.from_plan(plan_file, relu_record())
    other = tmp_path / "other"
    other.write_bytes(bytes(len(RELU_PLAN)))
    other.replace(plan_file)
    assert bytes(engine.plan) == RELU_PLAN
    plan_file.unlink()
    assert torch.equal(engine(torch.ones(1, 8))[0], torch.ones(1, 8))


def test_writing_to_the_tensor_changes_no_file_and_is_found(plan_file) -> None:
    engine = Engine.from_plan(plan_file, relu_record())
    engine.plan_tensor[-1] ^= 1
    with pytest.raises(PlanError, match="sha256"):
        engine(torch.ones(1, 8))
    assert plan_file.read_bytes() == RELU_PLAN


def test_a_file_that_cannot_be_written_to_is_enough(plan_file) -> None:
    plan_file.chmod(0o444)
    engine = Engine.from_plan(plan_file, relu_record())
    engine.plan_tensor[0] = 0  # of this process


def test_what_cannot_be_opened_is_an_os_error(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        Engine.from_plan(tmp_path / "nothing", relu_record())
    with pytest.raises(NotADirectoryError):
        Engine.from_plan("/dev/null/x", relu_record())


def test_what_is_no_regular_file_is_named(tmp_path, monkeypatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in (
        (tmp_path, "a folder"),
        ("/dev/null", "a device"),
        ("/dev/zero", "a device"),
    ):
        with pytest.raises(
            PlanError, match=rf"^{re.escape(str(path))}: expected a regular file, found {kind};"
        ):
            Engine.from_plan(path, relu_record())
    with pytest.raises(PlanError, match=r"pipe: expected a regular file, found a pipe"):
        Engine.from_plan(tmp_path / "pipe", relu_record())
    monkeypatch.chdir(tmp_path)  # an address of a socket is at most 107 bytes long
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
        with pytest.raises(OSError, match="No such device or address"):
            Engine.from_plan(tmp_path / "socket", relu_record())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected a plan, found an empty file"),
        (b"abc", "not a plan: .* found 'abc' in 3 bytes"),
        (RELU_PLAN[:-1], ".*expected a payload of .* bytes that ends the plan"),
    ],
    ids=["empty", "no plan", "cut off"],
)
def test_a_file_without_a_plan_is_refused_by_name(content, message, plan_file) -> None:
    plan_file.write_bytes(content)
    with pytest.raises(PlanError, match=rf"engine\.plan: {message}"):
        Engine.from_plan(plan_file, relu_record())
    assert not mapped_lines(plan_file)


def test_a_file_that_is_cut_off_later_ends_the_process_as_documented(plan_file) -> None:
    """No test of ours to pass, but the docstring says so: should this change, so must that."""
    plan_file.write_bytes(b"vtrt" + bytes(3 * mmap.PAGESIZE))
    code = (
        "import os, sys; from trt_runtime import Engine; from runtime.building import relu_record\n"
        "engine = Engine.from_plan(sys.argv[1], relu_record(device='cuda:0'))\n"
        "os.truncate(sys.argv[1], 10); bytes(engine.plan)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(plan_file)],
        cwd=Path(__file__).parents[1],
        check=False,
    )
    assert -result.returncode in (signal.SIGBUS, signal.SIGABRT)  # AddressSanitizer aborts for it
    assert "SIGBUS" in Engine.from_plan.__doc__


@pytest.mark.parametrize("offset", [0, mmap.PAGESIZE])
def test_a_read_only_map_is_held(offset, plan_file, counted) -> None:
    plan_file.write_bytes(bytes(offset) + RELU_PLAN)
    with plan_file.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with counted() as grown:
        engine = Engine.from_plan(memoryview(mapped)[offset:], relu_record())
    assert grown == {"plan_hashes": 1}
    with pytest.raises(BufferError):
        mapped.close()
    assert torch.equal(engine(torch.ones(1, 8))[0], torch.ones(1, 8))


@pytest.mark.parametrize("access", [mmap.ACCESS_WRITE, mmap.ACCESS_COPY])
@pytest.mark.parametrize("view", [memoryview, lambda m: memoryview(m).toreadonly()])
def test_a_map_that_can_be_written_to_is_copied(access, view, plan_file, counted) -> None:
    with plan_file.open("r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=access)
    with counted() as grown:
        engine = Engine.from_plan(view(mapped), relu_record())
    assert grown == {"plan_copies": 1, "plan_hashes": 1}
    mapped[:4] = b"none"
    assert bytes(engine.plan) == RELU_PLAN


def test_a_mapped_engine_is_saved_and_copied_as_any_other(plan_file, tmp_path) -> None:
    mapped, held = Engine.from_plan(plan_file, relu_record()), relu_engine()
    assert mapped.serialize() == held.serialize()
    assert torch._C._pickle_save(mapped.script_object) == torch._C._pickle_save(held.script_object)
