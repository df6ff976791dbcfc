"""Files that claim the same sha256 and hold different bytes: what each gives in one process."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import trt_runtime
from trt_runtime import Engine, PlanError
from trt_runtime.delegate import engine

from ..building import binding, model, plan_of, record_of
from .programs import Runs, opened, payload_of, raw, scaling_pte

FACTOR, TAMPERED_FACTOR = 17.0, 19.0
X = torch.randn(2, 8)
LOADS = [(which, verify) for which in ("whole", "tampered") for verify in (None, True, False)]


def tampered(path: Path, copy: Path) -> Path:
    """A copy of a `.pte` whose plan computes something else; its records claim the sha256 of the whole one."""
    old, new = (torch.tensor([factor]).numpy().tobytes() for factor in (FACTOR, TAMPERED_FACTOR))
    data = path.read_bytes()
    assert data.count(old) == 1
    copy.write_bytes(data.replace(old, new))
    return copy


@pytest.fixture(params=["named-data", "tr01"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Path]:
    whole = scaling_pte(tmp_path / "whole.pte", FACTOR, request.param)
    return {"whole": whole, "tampered": tampered(whole, tmp_path / "tampered.pte")}


@pytest.mark.parametrize(
    ("first", "second", "limit"),
    [
        (first, second, limit)
        for first, second in itertools.product(LOADS, LOADS)
        for limit in (10**9, 0)  # 0: every plan is a large one, which None does not verify
    ],
)
def test_in_every_order(
    first: tuple[str, bool | None],
    second: tuple[str, bool | None],
    limit: int,
    files: dict[str, Path],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "VERIFIED_SIZE", limit)
    opened_before = []
    for which, verify in (first, second):
        program = trt_runtime.load(files[which], verify=verify)
        opened_before.append(program)
        is_verified = limit > 0 if verify is None else verify
        if which == "whole":
            assert torch.equal(program.run([X])[0], FACTOR * X)
        elif is_verified:
            with pytest.raises(PlanError, match="sha256"):
                program.run([X])
        else:  # what it says it is, where that is open, else what it is
            (found,) = program.run([X])
            assert torch.equal(found, FACTOR * X) or torch.equal(found, TAMPERED_FACTOR * X)


def test_bytes_that_were_not_verified_are_verified_later_where_they_are(
    files: dict[str, Path], counted: Any
) -> None:
    with counted() as grown:
        trusting = trt_runtime.load(files["whole"], verify=False)
        trusting.run([X])
    assert "plan_hashes" not in grown
    with counted() as grown:
        for _ in range(3):
            trt_runtime.load(files["whole"], verify=True).run([X])
    assert grown["plan_hashes"] == 1
    assert "executor_loads" not in grown


def test_one_plan_in_two_files_is_open_once_if_both_were_verified(
    files: dict[str, Path], tmp_path: Path, counted: Any
) -> None:
    copy = Path(shutil.copyfile(files["whole"], tmp_path / "copy.pte"))
    with counted() as grown:
        programs = [trt_runtime.load(path) for path in (files["whole"], copy, copy)]
        for program in programs:
            assert torch.equal(program.run([X])[0], FACTOR * X)
    assert (grown["executor_loads"], grown["plan_hashes"]) == (1, 2)


def test_a_verified_file_that_was_written_to_is_verified_again(files: dict[str, Path]) -> None:
    path = files["whole"]
    keeps = trt_runtime.load(path, verify=True)
    keeps.run([X])
    path.write_bytes(files["tampered"].read_bytes())  # in place, which the docs warn of
    with pytest.raises(PlanError, match="sha256"):
        trt_runtime.load(path, verify=True).run([X])


def test_a_file_that_replaces_a_verified_one_is_verified(files: dict[str, Path]) -> None:
    keeps = trt_runtime.load(files["whole"], verify=True)
    assert torch.equal(keeps.run([X])[0], FACTOR * X)
    files["tampered"].replace(files["whole"])
    with pytest.raises(PlanError, match="sha256"):
        trt_runtime.load(files["whole"], verify=True).run([X])
    assert torch.equal(keeps.run([X])[0], FACTOR * X)


INPUTS = [binding("in_0", "float32", [2, 8], {})]
OUTPUTS = [binding("out_0", "float32", [2, 8])]


def scaling_plan(factor: float) -> bytes:
    constant = {"value_float": factor}
    nodes = [("Constant", [], ["f"], constant), ("Mul", ["in_0", "f"], ["out_0"])]
    return plan_of(model(nodes, INPUTS, OUTPUTS).SerializeToString())


WHOLE, OTHER = scaling_plan(FACTOR), scaling_plan(TAMPERED_FACTOR)
CLAIM = Engine.from_plan(WHOLE, record_of(INPUTS, OUTPUTS)).info.to_mapping()


@pytest.mark.parametrize("order", [(WHOLE, OTHER), (OTHER, WHOLE)], ids=["whole", "tampered"])
def test_engines_in_pytorch_run_their_own_bytes(order: tuple[bytes, bytes]) -> None:
    """They share nothing, but a rule for one is a rule for the other."""
    assert len(WHOLE) == len(OTHER)
    opened_before = []
    for plan in order:
        found = Engine.from_plan(plan, CLAIM)
        opened_before.append(found)
        for call in (found, Runs(found).call):
            if plan is WHOLE:
                assert torch.equal(call(X)[0], FACTOR * X)
            else:
                with pytest.raises(PlanError, match="sha256"):
                    call(X)


def test_memory_that_is_used_again_is_another_plan() -> None:
    """A plan in memory is known by its address, which is anyone's when the plan is gone."""
    payload = payload_of(WHOLE, CLAIM)
    damaged = payload.replace(WHOLE, OTHER)
    for _ in range(20):
        buffer = bytes(bytearray(payload))
        delegate = opened(buffer)
        out = torch.empty(2, 8)
        delegate.bind([raw(X)], [raw(out)])()
        assert torch.equal(out, FACTOR * X)
        del delegate, buffer
        buffer = bytes(bytearray(damaged))
        with pytest.raises(PlanError, match="sha256"):
            opened(buffer)
        del buffer
