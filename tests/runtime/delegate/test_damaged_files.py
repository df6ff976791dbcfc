"""A `.pte` whose inline payload is damaged or of another kind: loading it is a typed error, and that is all."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.export import ExportedProgram

import trt_runtime
from lowering import lower
from trt_runtime import ExecutorUnavailableError, PlanError, ProgramError, RecordError
from trt_runtime.delegate.check import check

from ..building import binding, model, plan_of, record_of, relu_record
from .programs import HEADER, Runs, export, scaling_program

X = torch.ones(2, 8)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("good") / "model.pte"
    return lower(scaling_program(17), path, format="tr01").read_bytes()


Patch = Callable[..., trt_runtime.Program]


@pytest.fixture
def patched(good: bytes, tmp_path: Path) -> Patch:
    """Writes the file with other header fields, other bytes in the JSON (as long as they were), or in the plan."""

    def patch(
        replace: tuple[bytes, bytes] | None = None, plan_byte: int | None = None, **fields: Any
    ) -> trt_runtime.Program:
        at = good.index(b"TR01")
        names = ("magic", "at", "size", "start", "plan", "reserved")
        values = dict(zip(names, HEADER.unpack_from(good, at), strict=True))
        data = bytearray(good)
        if replace is not None:
            old, new = replace
            assert data.count(old, at) == 1
            place = data.index(old, at)
            data[place : place + len(old)] = new.ljust(len(old))
        if plan_byte is not None:
            data[at + values["start"] + plan_byte] ^= 0xFF
        HEADER.pack_into(data, at, *{**values, **fields}.values())
        path = tmp_path / "patched.pte"
        path.write_bytes(data)
        return trt_runtime.load(path)

    return patch


def test_the_file_as_it_was_runs(patched: Patch) -> None:
    torch.testing.assert_close(patched().run([X]), [17 * X])


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"magic": b"TR09"}, ProgramError, "expected the magic TR01 or TR02"),
        ({"magic": b"TR02"}, ProgramError, "expected aliased_io in a TR02"),
        ({"at": 16}, ProgramError, "expected metadata between the header and the plan"),
        ({"at": 2**32 - 1, "size": 2**32 - 1}, ProgramError, "expected metadata between"),
        ({"size": 2**32 - 1}, ProgramError, "expected metadata between"),
        ({"size": 7}, ProgramError, "expected metadata in JSON"),
        ({"start": 2**32 - 16}, ProgramError, "expected the plan at a multiple of 16"),
        ({"plan": 2**64 - 1}, ProgramError, "expected a plan of 18446744073709551615 bytes"),
        ({"plan": 0}, ProgramError, "expected a plan of 0 bytes"),
        ({"replace": (b'"io_bindings"', b'"io_bandings"')}, ProgramError, "field 'io_bindings'"),
        ({"replace": (b'"device_id":-1', b'"device_id":70')}, ExecutorUnavailableError, "cuda:70"),
        ({"replace": (b'"device_id":-1', b'"device_id":[]')}, ProgramError, "'device_id'"),
        (
            {"replace": (b'"dtype":"float32","shape":[-1,8],"is_input":true',
                         b'"dtype":"float16","shape":[-1,8],"is_input":true')},
            RecordError,
            "of the record, found .* in the payload; the file is damaged: lower it again",
        ),
        (
            {"replace": (b'"name":"out_0","dtype":"float32","shape":[-1,8],"is_input":false',
                         b'"name":"out_7","dtype":"float32","shape":[-1,8],"is_input":false')},
            RecordError,
            "out_7",
        ),
        ({"replace": (b'{\\"schema\\": 1', b'{\\"schema\\": 9')}, RecordError, "found schema 9.*install"),
        ({"replace": (b'"{\\"schema\\"', b'"gASVKAAAA')}, RecordError, "build it again"),
        ({"plan_byte": 0}, PlanError, "not a plan: expected the magic 'ortp'"),
        ({"plan_byte": 4}, PlanError, "expected header version 1"),
        ({"plan_byte": 60}, PlanError, "expected zeros at the end of the header"),
        ({"plan_byte": 70}, PlanError, "expected zeros up to the payload"),
        ({"plan_byte": 134}, PlanError, "expected the sha256 .* build it again"),
    ],
    ids=repr,
)  # fmt: skip
def test_damage_is_a_typed_error_every_time(
    patched: Patch, change: dict[str, Any], error: type[Exception], message: str
) -> None:
    program = patched(**change)
    for _ in range(2):
        with pytest.raises(error, match=message) as caught:
            program.run([X])
        assert str(caught.value).startswith(f"{program._path}, method 'forward': ")


@pytest.mark.parametrize(
    ("magic", "device", "message"),
    [
        (b"vtrt", "cpu", "expected a CUDA device for a tensorrt-rtx plan.*build the engine for"),
        (b"ftrt", "cpu", "expected a CUDA device for a tensorrt plan.*build the engine for"),
        (b"vtrt", "cuda:0", "as cuda:0, found 0 CUDA devices.*builder='onnxruntime'"),
        (b"ftrt", "cuda:1", "as cuda:1, found 0 CUDA devices.*run it on a machine with such a GPU"),
    ],
)
def test_a_plan_that_nothing_here_runs_says_what_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, magic: bytes, device: str, message: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    engine = trt_runtime.Engine.from_plan(magic + bytes(60), relu_record(device=device))
    program = export_on_cpu(engine)
    loaded = trt_runtime.load(lower(program, tmp_path / "gpu.pte"))
    with pytest.raises(ExecutorUnavailableError, match=message):
        loaded.run([X])


def export_on_cpu(engine: trt_runtime.Engine) -> ExportedProgram:
    """Export with an engine of the CPU, then put the other in its place: tracing checks devices."""
    program = export(
        Runs(trt_runtime.Engine.from_plan(b"vtrt" + bytes(60), relu_record())), X, largest=16
    )
    (name,) = [n for n, value in program.constants.items() if isinstance(value, torch.ScriptObject)]
    program.constants[name] = engine.script_object
    return program


def test_a_dtype_without_kernels_here_is_named(tmp_path: Path) -> None:
    sides = [binding("a", "bfloat16", [2], {})], [binding("b", "bfloat16", [2])]
    plan = plan_of(model([("Identity", ["a"], ["b"])], *sides).SerializeToString())
    engine = trt_runtime.Engine.from_plan(plan, record_of(*sides))
    x = torch.ones(2, dtype=torch.bfloat16)
    loaded = trt_runtime.load(
        lower(torch.export.export(Runs(engine), (x,)), tmp_path / "bfloat16.pte")
    )
    with pytest.raises(ExecutorUnavailableError, match=r"found bfloat16, .*TensorRT builder"):
        loaded.run([x])


@pytest.mark.parametrize("content", [b"", b"x", b"PK\3\4" + bytes(100), bytes(1000)])
def test_a_file_that_is_no_program(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.pte"
    path.write_bytes(content)
    with pytest.raises(ProgramError, match=r"other\.pte: expected a \.pte"):
        trt_runtime.load(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.pte"):
        trt_runtime.load(tmp_path / "nothing.pte")


def test_tables_are_read_before_executorch_reads_them(tmp_path: Path, good: bytes) -> None:
    """ExecuTorch follows what its own verifier lets through, and takes any memory that a file plans."""
    methods = struct.pack("<q", 2**60)
    (sizes,) = {
        at
        for at in range(0, len(good) - 16, 4)
        if good[at : at + 4] == struct.pack("<I", 2)
        and good[at + 4 : at + 12] == bytes(8)
        and 0 < struct.unpack_from("<q", good, at + 12)[0] < 2**20
    } or {0}
    assert sizes
    path = tmp_path / "large.pte"
    path.write_bytes(good[: sizes + 12] + methods + good[sizes + 20 :])
    with pytest.raises(
        ProgramError,
        match=r"expected planned memory that this machine has .*, found 1152921504606846976",
    ):
        trt_runtime.load(path)
    with pytest.raises(ProgramError, match="planned memory"):
        check(path)
