"""`trt-runtime check`: what runs here and what does not, without loading an engine."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime.delegate.check import check
from trt_runtime.delegate.pte import read_delegates, read_named_data

from .conftest import Outcome

Command = Callable[..., Outcome]


def test_a_program_that_runs_here_is_valid(doubler: Path, command: Command) -> None:
    before = trt_runtime.stats()
    before["plan_hashes"] += 1
    code, out, err = command("check", doubler)
    assert (code, err) == (0, "")
    (backend,) = {item.backend for item in read_delegates(memoryview(doubler.read_bytes()))}
    assert f"delegate 0 of method forward, {backend}: VALID" in out
    assert "plan: onnxruntime" in out
    assert "built for: cpu" in out
    assert (
        trt_runtime.stats() == before
    )  # the plan was verified; no engine was loaded, no plan copied


def test_a_program_for_a_gpu_is_invalid_where_there_is_none(
    for_a_gpu: Path, command: Command
) -> None:
    code, out, _ = command("check", for_a_gpu, "--json")
    assert code == 1
    (delegate,) = json.loads(out)["delegates"]
    assert delegate["verdict"] == "INVALID"
    assert delegate["format"] == "tensorrt-rtx"
    assert "SM80 or SM86 or SM89" in delegate["target"]
    assert "found 0 CUDA devices" in delegate["reason"]


def test_what_would_run_better_is_suboptimal(
    doubler: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    code, out, _ = command("check", doubler)
    assert code == 0
    assert "SUBOPTIMAL" in out
    assert "build the engine with tensorrt" in out


def test_a_damaged_plan_is_invalid(doubler: Path, tmp_path: Path, command: Command) -> None:
    data = bytearray(doubler.read_bytes())
    (delegate,) = read_delegates(memoryview(data))
    spans = list(read_named_data(memoryview(data)).values())  # none if the plan is in the payload
    offset, size = spans[0] if spans else (delegate.offset, delegate.size)
    data[offset + size - 1] ^= 1
    damaged = tmp_path / "damaged.pte"
    damaged.write_bytes(data)
    code, out, _ = command("check", damaged)
    assert code == 1
    assert "sha256" in out


def test_without_executorch_nothing_runs(doubler: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "executorch" else find(name)
    )
    (delegate,) = check(doubler)
    assert delegate.verdict == "INVALID"
    assert "pip install 'trt-runtime[executorch]'" in (delegate.reason or "")


def test_a_delegate_of_another_backend(doubler: Path, tmp_path: Path) -> None:
    data = doubler.read_bytes()
    (own,) = {item.backend.encode() for item in read_delegates(memoryview(data))}
    assert data.count(own) == 1
    other = tmp_path / "other.pte"
    other.write_bytes(data.replace(own, b"ElsewhereBackend."[: len(own)]))
    (delegate,) = check(other)
    assert delegate.verdict == "INVALID"
    assert "expected a backend 'Elsewhere" in (delegate.reason or "")


def test_a_program_without_delegates(tmp_path: Path, command: Command) -> None:
    from executorch.exir import to_edge

    path = tmp_path / "plain.pte"
    program = torch.export.export(torch.nn.ReLU(), (torch.ones(2),))
    path.write_bytes(to_edge(program).to_executorch().buffer)
    code, out, _ = command("check", path)
    assert (code, out.split(": ")[1]) == (0, "no delegates; ExecuTorch's own kernels run it\n")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x" * 100, b"\x18\x00\x00\x00ET11" * 9])
def test_another_file_is_refused_by_name(content: bytes, tmp_path: Path, command: Command) -> None:
    path = tmp_path / "no.pte"
    path.write_bytes(content)
    code, out, err = command("check", path)
    assert (code, out) == (1, "")
    assert "no.pte: expected a .pte" in err


def test_a_missing_file_is_named(tmp_path: Path, command: Command) -> None:
    code, _, err = command("check", tmp_path / "none.pte")
    assert code == 2
    assert "No such file" in err
    assert "none.pte" in err


def test_a_cut_or_bent_file_is_never_a_traceback(doubler: Path) -> None:
    data = doubler.read_bytes()
    program_size = struct.unpack_from("<Q", data, 16)[0]
    for size in range(0, program_size, 7):
        with pytest.raises(trt_runtime.ProgramError):
            read_delegates(memoryview(data[:size]))
    bent = bytearray(data)
    for position in range(8, program_size):
        keep, bent[position] = bent[position], bent[position] ^ 0xFF
        try:
            for delegate in read_delegates(memoryview(bent)):
                assert delegate.offset + delegate.size <= len(bent)
        except trt_runtime.ProgramError:
            pass
        bent[position] = keep
