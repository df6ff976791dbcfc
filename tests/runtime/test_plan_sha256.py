"""A plan is hashed once in its life, by whoever asks first, and no lock is held meanwhile."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime import Engine, PlanError, _native

from .building import RELU_PLAN, relu_engine, relu_record

DIGEST = hashlib.sha256(RELU_PLAN).hexdigest()
PLAN_FIELD = {"format": "onnxruntime", "size": len(RELU_PLAN), "sha256": DIGEST}


@contextmanager
def hashing_with(function) -> Iterator[None]:
    _native.register_sha256(function)
    try:
        yield
    finally:
        _native.register_sha256(lambda plan: hashlib.sha256(plan).digest())


def test_it_is_that_of_all_bytes(counted) -> None:
    engine = relu_engine(plan=PLAN_FIELD)
    with counted() as grown:
        assert engine.plan_sha256 == DIGEST
        assert engine.script_object.plan_sha256() == DIGEST
        assert _native.engine_plan(engine.script_object).sha256 == DIGEST
    assert grown == {"plan_hashes": 1}


def test_it_says_what_the_plan_is_whatever_the_record_says() -> None:
    engine = relu_engine(plan={**PLAN_FIELD, "sha256": "0" * 64})
    assert engine.plan_sha256 == DIGEST
    with pytest.raises(
        PlanError, match=rf"expected the sha256 0{{64}} of the plan, found {DIGEST}"
    ):
        engine(torch.ones(1, 8))


def test_a_record_that_names_its_plan_makes_no_one_read_it(counted) -> None:
    with counted() as grown:
        engine = relu_engine(plan=PLAN_FIELD)
        _ = engine.info, engine.serialize_metadata_only()
    assert grown == {}


def test_making_running_and_asking_hash_a_plan_once(counted) -> None:
    with counted() as grown:
        engine = relu_engine(plan=PLAN_FIELD)
        engine(torch.ones(1, 8))
        again = Engine.from_plan(engine.plan, relu_record(plan=PLAN_FIELD))
        again(torch.ones(1, 8))
        assert engine.plan_sha256 == again.plan_sha256 == DIGEST
    assert grown["plan_hashes"] == 1
    with counted() as grown:
        relu_engine(plan=PLAN_FIELD)(torch.ones(1, 8))
    assert grown["plan_hashes"] == 1  # what is run is verified


@pytest.mark.parametrize("offset", [0, 5, 70, -1])
def test_what_was_written_after_it_was_hashed_is_found_before_it_runs(offset, counted) -> None:
    engine = Engine.from_plan(bytes(bytearray(RELU_PLAN)), relu_record())
    assert engine.plan_sha256 == DIGEST
    engine.plan_tensor[offset] ^= 1
    with counted() as grown, pytest.raises(PlanError, match=r"sha256"):
        engine(torch.ones(1, 8))
    assert grown == {"plan_hashes": 1}


def test_threads_that_hash_at_once_all_hash_and_agree(counted) -> None:
    """All of them are inside the hash at the same time: none waits for another with a lock held."""
    inside = threading.Barrier(8, timeout=60)

    def meet(plan: memoryview) -> bytes:
        inside.wait()
        return hashlib.sha256(plan).digest()

    engine = relu_engine(plan=PLAN_FIELD)
    with counted() as grown, hashing_with(meet), ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: engine.script_object.plan_sha256(), range(8)))
        assert found == {DIGEST}
        assert engine.plan_sha256 == DIGEST  # known: another hash would wait for partners in vain
    assert grown == {"plan_hashes": 8}


def test_threads_that_hash_while_others_run_do_not_stop_each_other() -> None:
    x = torch.ones(2, 8)
    engines = [relu_engine(plan=PLAN_FIELD) for _ in range(50)]
    start = threading.Barrier(16, timeout=60)

    def work(number: int) -> bool:
        start.wait()
        if number % 2:
            return all(engine.plan_sha256 == DIGEST for engine in engines)
        return all(torch.equal(engine(x)[0], x) for engine in engines)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(work, range(16), timeout=120))


def test_what_fails_while_hashing_is_told_and_forgotten(counted) -> None:
    def fail(plan: memoryview) -> bytes:
        raise ZeroDivisionError("no hash today")

    engine = relu_engine(plan=PLAN_FIELD)
    with hashing_with(fail), pytest.raises(ZeroDivisionError, match="no hash today"):
        _ = engine.plan_sha256
    with hashing_with(lambda plan: b"short"), pytest.raises(RuntimeError, match=r"32 .* found 5"):
        _ = engine.plan_sha256
    assert engine.plan_sha256 == DIGEST


def test_the_memory_of_a_plan_is_not_kept_by_the_hash() -> None:
    kept = []

    def keep(plan: memoryview) -> bytes:
        kept.append(plan)
        return hashlib.sha256(plan).digest()

    with hashing_with(keep):
        assert relu_engine(plan=PLAN_FIELD).plan_sha256 == DIGEST
    with pytest.raises(ValueError, match="released"):
        kept[0][0]


def test_without_the_package_there_is_no_hash(tmp_path) -> None:
    """The library alone, as another program may load it, says what to do."""
    (tmp_path / "engine").write_bytes(torch._C._pickle_save(relu_engine().script_object))
    library = Path(trt_runtime.__file__).with_name("libtrt_runtime.so")
    code = (
        "import sys, torch\n"
        "torch.classes.load_library(sys.argv[1])\n"
        "engine = torch._C._pickle_load_obj(open(sys.argv[2], 'rb').read())\n"
        "engine.plan_sha256()"
    )
    result = subprocess.run(
        [sys.executable, "-c", code, str(library), str(tmp_path / "engine")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert "found none; import trt_runtime in this process" in result.stderr
