"""`save_program`: what `torch.export.save` writes, with each engine once; all of it or nothing."""

from __future__ import annotations

import copy
import gc
import io
import json
import os
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import trt_runtime
from trt_runtime import Engine

from ..building import RELU_PLAN, relu_engine
from ..test_mapped_plans import LARGE, large_record
from .programs import anonymous, engines_of, exported, same_results

ENTRY, CONFIG = "data/constants/custom_obj_0", "data/constants/model_constants_config.json"

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt2"


def another() -> Engine:
    """An equal engine over other memory."""
    return Engine.deserialize(relu_engine().serialize())


@pytest.mark.parametrize(
    "engines",
    [lambda one: (one, one), lambda one: (one, copy.deepcopy(one)), lambda one: (one, another())],
    ids=["the same", "a copy", "an equal one"],
)
def test_an_engine_under_two_names_is_in_the_file_once(engines, path) -> None:
    program = exported(*engines(relu_engine()))
    trt_runtime.save_program(program, path)
    assert path.read_bytes().count(RELU_PLAN) == 1
    for load in (torch.export.load, trt_runtime.load_program):
        loaded = load(path)
        assert list(loaded.constants) == list(program.constants)
        assert len(engines_of(loaded)) == 2
        assert same_results(loaded, program)


def test_an_open_file_will_do() -> None:
    program, file = exported(relu_engine()), io.BytesIO()
    trt_runtime.save_program(program, file)
    assert file.getvalue().count(RELU_PLAN) == 1
    file.seek(0)
    assert same_results(torch.export.load(file), program)


def test_a_program_without_engines_is_saved(path) -> None:
    program = torch.export.export(torch.nn.Linear(8, 8), (torch.ones(4, 8),))
    trt_runtime.save_program(program, path)
    assert same_results(torch.export.load(path), program)


def test_different_engines_are_all_there(path) -> None:
    first, second = relu_engine(), relu_engine(name="second")
    program = exported(first, second, first, second)
    trt_runtime.save_program(program, path)
    assert path.read_bytes().count(RELU_PLAN) == 2  # one plan, but two records
    loaded = trt_runtime.load_program(path)
    assert [engine.info.name for engine in engines_of(loaded)] == [
        engine.info.name for engine in engines_of(program)
    ]


def test_equal_records_of_different_bytes_stay_different(path) -> None:
    """A plan that was damaged in memory is not taken for the good one whose record it has."""
    good, bad = relu_engine(), another()
    bad.plan_tensor[-1] ^= 1
    program = exported(good, bad)
    trt_runtime.save_program(program, path)
    plans = [bytes(engine.plan) for engine in engines_of(trt_runtime.load_program(path))]
    assert plans == [bytes(good.plan), bytes(bad.plan)]
    assert plans[0] != plans[1]


def test_the_program_is_not_changed_and_nothing_is_encoded(path, counted) -> None:
    engine = relu_engine()
    program = exported(engine, engine)
    before = dict(program.constants)
    program.module()(torch.ones(4, 8))
    with counted() as grown:
        trt_runtime.save_program(program, path)
        program.module()(
            torch.ones(4, 8)
        )  # nobody was given the plan to write to: no reason to hash it
    assert grown == {}
    assert program.constants == before


def contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {
            name.partition("/")[2]: archive.read(name)
            for name in archive.namelist()
            if "serialization_id" not in name
        }


@pytest.mark.parametrize("extra", [[], ["é", ""]])
def test_the_file_is_that_of_torch(extra, path, tmp_path) -> None:
    """All entries, and for the engine what torch makes of its entry; torch's has a few bytes more."""
    program = exported(relu_engine(future=extra))
    trt_runtime.save_program(program, path)
    torch.export.save(program, tmp_path / "torch.pt2")
    ours, theirs = contents(path), contents(tmp_path / "torch.pt2")
    engines = [Engine(torch._C._pickle_load_obj(file.pop(ENTRY))) for file in (ours, theirs)]
    assert engines[0].serialize() == engines[1].serialize() == engines_of(program)[0].serialize()
    assert json.loads(ours.pop(CONFIG)) == json.loads(theirs.pop(CONFIG))
    assert ours == theirs


@pytest.mark.memory
def test_a_large_plan_is_not_copied(path, tmp_path, counted) -> None:
    plan = tmp_path / "large.plan"
    plan.write_bytes(b"vtrt" + bytes(LARGE - 4))
    program = exported(Engine.from_plan(plan, large_record(LARGE)))
    found, done = [anonymous()], threading.Event()

    def watch() -> None:
        while not done.wait(0.0005):
            found.append(anonymous())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with counted() as grown:
            trt_runtime.save_program(program, path)
    finally:
        done.set()
        watcher.join()
    assert grown == {}
    assert max(found) - found[0] < LARGE / 4
    assert path.stat().st_size < LARGE + 2**20
    (engine,) = engines_of(torch.export.load(path))
    assert engine.plan == engines_of(program)[0].plan


def test_extra_files_are_written(path) -> None:
    engine = relu_engine()
    trt_runtime.save_program(exported(engine, engine), path, extra_files={"notes.txt": "é"})
    extra = {"notes.txt": ""}
    torch.export.load(path, extra_files=extra)
    assert extra == {"notes.txt": "é"}


def test_a_failure_leaves_the_old_file(path, tmp_path, monkeypatch) -> None:
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    engine = relu_engine()
    monkeypatch.setattr("trt_runtime.exported.save.replace_entries", fail)
    with pytest.raises(OSError, match="nothing was written"):
        trt_runtime.save_program(exported(engine, engine), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_missing_is_an_os_error(tmp_path) -> None:
    with pytest.raises(OSError, match="nothing was written"):
        trt_runtime.save_program(exported(relu_engine()), tmp_path / "missing" / "model.pt2")


def test_what_is_no_file_to_write_is_left_alone(tmp_path) -> None:
    """A rename would put a file in the place of a device, whoever may write to that."""
    program = exported(relu_engine())
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "read-only").write_bytes(b"old")
    (tmp_path / "read-only").chmod(0o444)
    (tmp_path / "link").symlink_to("pipe")
    for name, found in [
        (tmp_path / "pipe", "Not a regular file"),
        (tmp_path / "link", "Not a regular file"),
        (tmp_path / "read-only", "read-only"),
        (tmp_path, "directory"),
    ]:
        with pytest.raises(OSError, match=f"{found}; nothing was written"):
            trt_runtime.save_program(program, name)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "read-only").read_bytes() == b"old"


@pytest.mark.parametrize("file", [None, 3, b"model.pt2", io.StringIO(), io.BytesIO().read])
def test_what_is_no_file_is_a_type_error(file) -> None:
    """torch ends the process for some of these."""
    with pytest.raises(TypeError, match="expected a path, or a file"):
        trt_runtime.save_program(exported(relu_engine()), file)


def test_a_file_that_is_only_open_for_writing_is_a_type_error(path) -> None:
    with path.open("wb") as file, pytest.raises(TypeError, match=r"'w\+b'"):
        trt_runtime.save_program(exported(relu_engine()), file)


def test_what_is_no_program_is_a_type_error(path) -> None:
    with pytest.raises(TypeError, match="found Linear"):
        trt_runtime.save_program(torch.nn.Linear(1, 1), path)
    assert not path.exists()


class Full(io.BytesIO):
    """A file on a disk that is full after some bytes, or whose writer is interrupted there."""

    def __init__(self, left: int, error: BaseException) -> None:
        super().__init__()
        self.left = left
        self.error = error

    def write(self, data: Any) -> int:
        self.left -= memoryview(data).nbytes
        if self.left < 0:
            raise self.error
        return super().write(data)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_write_that_fails_anywhere_is_that_error(error) -> None:
    """torch's own writers end the process then, when they are thrown away."""
    program = exported(relu_engine())
    whole = io.BytesIO()
    trt_runtime.save_program(program, whole)
    size = len(whole.getvalue())
    for left in range(0, size, 900):
        with pytest.raises(type(error)) as caught:
            trt_runtime.save_program(program, Full(left, error))
        assert caught.value is error
        gc.collect()
