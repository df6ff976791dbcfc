"""`save_program`: what `torch.export.save` writes, with each engine once; all of it or nothing."""

from __future__ import annotations

import copy
import zipfile
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime import Engine

from ..building import RELU_PLAN, relu_engine
from .programs import engines_of, exported, same_results

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
    with counted() as grown:
        trt_runtime.save_program(program, path)
    assert grown == {}
    assert program.constants == before


def test_what_torch_saves_with_one_engine_is_what_we_save(path, tmp_path) -> None:
    program = exported(relu_engine())
    trt_runtime.save_program(program, path)
    torch.export.save(program, tmp_path / "torch.pt2")
    contents = []
    for file in (path, tmp_path / "torch.pt2"):
        with zipfile.ZipFile(file) as archive:
            contents.append(
                {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
            )
    assert set(contents[0]) == set(contents[1])
    constants = [name for name in contents[0] if name.startswith("data/")]
    assert all(contents[0][name] == contents[1][name] for name in constants)


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
