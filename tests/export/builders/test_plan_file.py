"""Large plans lie in temporary files without a name, small ones in memory."""

import gc
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

import trt_runtime
from export.builders.requests import matmul_request
from trt_export.builders import Plan, PlanFile, get_builder
from trt_export.builders.plan_file import take_plan, write_plan
from trt_export.plan import check_plan

LARGE = np.ones((4, 1 << 17), np.float32)


def built() -> Plan:
    return get_builder("onnxruntime").build(matmul_request(LARGE))


def content(plan: Plan) -> bytes:
    return plan if isinstance(plan, bytes) else Path(plan).read_bytes()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_a_large_plan_is_a_file_that_nobody_has_to_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = open_files()
    plan = built()
    assert isinstance(plan, PlanFile)
    assert check_plan(plan).size > LARGE.nbytes
    assert not list(tmp_path.iterdir())
    assert open_files() == before + 1
    del plan
    gc.collect()
    assert open_files() == before


def test_a_small_plan_is_bytes() -> None:
    assert isinstance(get_builder("onnxruntime").build(matmul_request()), bytes)


def test_a_plan_has_the_same_bytes_in_a_file_and_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    in_file = content(built())

    def no_room(**options: object) -> object:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryFile", no_room)
    assert built() == in_file


def test_an_engine_keeps_the_plan_whose_file_is_gone() -> None:
    binding = {"dtype": "float32", "shape": [2, 4]}
    record = {
        "name": "e",
        "device": "cpu",
        "inputs": [{**binding, "name": "in_0", "min": [2, 4], "opt": [2, 4], "max": [2, 4]}],
        "outputs": [{**binding, "name": "out_0", "shape": [2, 1 << 17]}],
        "provenance": {},
    }
    plan = built()
    engine = trt_runtime.Engine.from_plan(plan, record)
    written = content(plan)
    del plan
    gc.collect()
    assert bytes(engine.plan) == written


def test_a_builders_file_is_taken_whole_whatever_its_size(tmp_path: Path) -> None:
    for size, kind in ((1000, bytes), (3 << 20, PlanFile)):
        path = tmp_path / "plan"
        path.write_bytes(os.urandom(size))
        written = path.read_bytes()
        plan = take_plan(path)
        path.unlink()
        assert isinstance(plan, kind)
        assert content(plan) == written


def test_what_is_written_in_vain_is_not_left_in_memory_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A disk that is full in the middle of a plan: the plan is written anew, from its beginning."""
    calls = []

    def write(file: object) -> None:
        calls.append(file)
        if len(calls) == 1:
            raise OSError(28, "No space left on device")
        file.write(b"plan")  # type: ignore[attr-defined]

    assert write_plan(1 << 30, write) == b"plan"
    assert len(calls) == 2
