"""`load_program`: what `torch.export.load` gives, with the plans mapped from the file."""

from __future__ import annotations

import gc
import os
import random
import re
import zipfile
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime import Engine, PlanError, ProgramError, RecordError
from trt_runtime.exported import load

from ..building import RELU_PLAN, relu_engine
from ..test_mapped_plans import LARGE, large_record
from ..test_releases import PROGRAMS
from .programs import anonymous, engines_of, exported, mappings_of, same_results

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.pt2"


@pytest.mark.parametrize("path_type", [str, Path])
def test_a_plan_is_mapped_from_the_file(path_type, path, counted) -> None:
    program = exported(relu_engine())
    torch.export.save(program, path)
    with counted() as grown:
        loaded = trt_runtime.load_program(path_type(path))
    assert grown == {}
    (engine,) = engines_of(loaded)
    assert mappings_of(path) == 1
    assert bytes(engine.plan) == RELU_PLAN
    assert engine.info == engines_of(program)[0].info
    assert same_results(loaded, program)


@pytest.mark.memory
def test_a_large_plan_takes_no_memory(path, tmp_path, counted) -> None:
    plan = tmp_path / "large.plan"
    plan.write_bytes(b"vtrt" + bytes(LARGE - 4))
    torch.export.save(exported(Engine.from_plan(plan, large_record(LARGE))), path)
    gc.collect()
    before = anonymous()
    with counted() as grown:
        program = trt_runtime.load_program(path)
        program = program.run_decompositions({})
        (engine,) = engines_of(program)
        assert engine.plan_tensor.count_nonzero() == 4  # every byte was read
    assert grown == {}
    assert anonymous() - before < LARGE / 4


def test_a_plan_lies_where_large_weights_can_be_read_in_place(path) -> None:
    """ONNX Runtime reads weights where they are at multiples of 64, which a plan keeps from its own beginning on."""
    program = exported(relu_engine(), relu_engine(name="other"), relu_engine(name="the third"))
    for save in (torch.export.save, trt_runtime.save_program):
        save(program, path)
        for engine in engines_of(trt_runtime.load_program(path)):
            assert engine.plan_tensor.data_ptr() % 64 == 0


def test_the_file_is_let_go_with_the_program(path) -> None:
    torch.export.save(exported(relu_engine()), path)
    program = trt_runtime.load_program(path)
    assert mappings_of(path) == 1
    del program
    gc.collect()
    assert mappings_of(path) == 0
    assert not load._held


def test_a_file_that_is_replaced_or_deleted_stays_what_it_was(path) -> None:
    program = exported(relu_engine())
    trt_runtime.save_program(program, path)
    loaded = trt_runtime.load_program(path)
    trt_runtime.save_program(loaded, path)  # onto what it is read from
    again = trt_runtime.load_program(path)
    path.unlink()
    assert same_results(loaded, program)
    assert same_results(again, program)


@pytest.mark.parametrize("golden", PROGRAMS, ids=lambda path: path.stem)
def test_programs_of_every_release_load(golden: Path) -> None:
    assert same_results(trt_runtime.load_program(golden), torch.export.load(golden))


def test_a_program_without_engines_loads(path) -> None:
    program = torch.export.export(torch.nn.Linear(8, 8), (torch.ones(4, 8),))
    torch.export.save(program, path)
    x = torch.randn(4, 8)
    assert torch.equal(trt_runtime.load_program(path).module()(x), program.module()(x))


def test_extra_files_come_along(path) -> None:
    torch.export.save(exported(relu_engine()), path, extra_files={"notes.txt": "é"})
    extra = {"notes.txt": ""}
    trt_runtime.load_program(path, extra_files=extra)
    assert extra == {"notes.txt": "é"}


def test_any_file_name_will_do(tmp_path) -> None:
    program = exported(relu_engine())
    with (tmp_path / "no ending").open("wb") as file:
        torch.export.save(program, file)
    assert same_results(trt_runtime.load_program(tmp_path / "no ending"), program)


def test_a_missing_file_is_an_os_error(tmp_path) -> None:
    with pytest.raises(FileNotFoundError):
        trt_runtime.load_program(tmp_path / "nothing.pt2")


def test_what_is_no_regular_file_is_refused_at_once(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/null"):
        with pytest.raises(
            ProgramError, match=rf"{re.escape(str(path))}: expected a program .* no regular file"
        ):
            trt_runtime.load_program(path)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("content", [b"", b"hello", b"PK\3\4"])
def test_what_is_no_program_is_refused_by_name(content, path) -> None:
    path.write_bytes(content)
    with pytest.raises(
        ProgramError, match=rf"{re.escape(str(path))}: expected a program .* save it again"
    ):
        trt_runtime.load_program(path)


def test_a_plan_that_is_none_is_refused(path) -> None:
    torch.export.save(exported(relu_engine()), path)
    path.write_bytes(path.read_bytes().replace(RELU_PLAN[:8], b"whatever"))
    with pytest.raises(PlanError, match="magic"):
        trt_runtime.load_program(path)
    assert not load._held


def test_nothing_is_held_when_one_of_two_engines_is_no_good(path) -> None:
    torch.export.save(exported(relu_engine(), relu_engine(name="second")), path)
    data = path.read_bytes()
    last = data.rindex(RELU_PLAN)
    path.write_bytes(data[:last] + b"whatever" + data[last + 8 :])
    with pytest.raises(PlanError, match="magic"):
        trt_runtime.load_program(path)
    assert not load._held
    assert mappings_of(path) == 0


def test_a_plan_with_other_bytes_is_found_by_the_first_run(path) -> None:
    torch.export.save(exported(relu_engine()), path)
    path.write_bytes(path.read_bytes().replace(RELU_PLAN[-8:], b"whatever"))
    program = trt_runtime.load_program(path)
    with pytest.raises(PlanError, match="sha256"):
        program.module()(torch.ones(4, 8))


def test_an_engine_of_a_later_state_is_left_to_torch(path, monkeypatch) -> None:
    torch.export.save(exported(relu_engine()), path)
    monkeypatch.setattr("trt_runtime.exported.archive.TENSOR_STATE", 7)
    program = trt_runtime.load_program(path)
    assert mappings_of(path) == 0
    assert bytes(engines_of(program)[0].plan) == RELU_PLAN


@pytest.mark.filterwarnings("ignore")
def test_damage_is_refused_or_harmless(path, tmp_path) -> None:
    """No damaged file ends the process, and what loads in spite of it has the bytes of the file."""
    torch.export.save(exported(relu_engine()), path)
    good = path.read_bytes()
    refused = 0
    choice = random.Random(5)
    for turn in range(150):
        data = bytearray(good)
        if turn % 3 == 0:
            del data[choice.randrange(len(data)) :]
        else:
            for _ in range(turn % 3):
                data[choice.randrange(len(data))] ^= 1 << choice.randrange(8)
        damaged = tmp_path / f"{turn}.pt2"
        damaged.write_bytes(data)
        try:
            program = trt_runtime.load_program(damaged)
        except (ProgramError, PlanError, RecordError):
            refused += 1
        else:
            assert all(bytes(engine.plan) in data for engine in engines_of(program))
    assert 50 <= refused < 150
    assert not load._held


def test_a_compressed_archive_is_left_to_torch(path, tmp_path) -> None:
    program = exported(relu_engine())
    torch.export.save(program, path)
    packed = tmp_path / "packed.pt2"
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            new.writestr(entry.filename, old.read(entry))
    assert same_results(trt_runtime.load_program(packed), program)
    assert mappings_of(packed) == 0


def test_two_constants_in_one_entry_are_one_engine(path) -> None:
    engine = relu_engine()
    trt_runtime.save_program(exported(engine, engine), path)
    constants = list(trt_runtime.load_program(path).constants.values())
    assert len(constants) == 2
    assert constants[0] is constants[1]
