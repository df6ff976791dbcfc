"""`trt-export info`, and `trt_export.info` behind it."""

import json
import struct
from pathlib import Path

import pytest
import torch
from executorch.exir import to_edge_transform_and_lower
from torch.export import export

import trt_export
from export.cli.conftest import Command
from export.programs import one_call
from trt_export.cli import main
from trt_export.errors import FileFormatError
from trt_export.inspecting import Pt2Info, PteInfo, info


def test_a_pte(pte: Path) -> None:
    found = info(pte)
    assert isinstance(found, PteInfo)
    assert found.size == pte.stat().st_size
    assert found.problems == []
    (method,) = found.methods
    assert [value.sizes for value in method.inputs] == [(16, 8)]
    assert {"aten::relu.out", "aten::add.out"} < set(method.operators)
    (delegate,) = method.delegates
    assert (delegate.backend, delegate.inline) == ("TensorRTBackend", False)
    engine = delegate.engine
    assert engine is not None
    assert engine.container == "TR01"
    assert (engine.plan_format, engine.plan_size, engine.plan_version) == (
        "tensorrt-rtx",
        200,
        "1.7.1.116",
    )
    assert engine.compute_capabilities == ("8.0", "8.6", "8.9")
    assert engine.device == "cpu"
    assert [(b.name, b.role, b.dtype, b.shape) for b in engine.bindings] == [
        ("in_0", "input", "float32", (-1, 8)),
        ("out_0", "output", "float32", (-1, 4)),
    ]
    assert engine.provenance == {"builder": "by hand"}


def test_a_pte_with_its_plan_in_named_data(named_pte: Path) -> None:
    found = info(named_pte)
    assert isinstance(found, PteInfo)
    assert found.problems == []
    (delegate,) = found.methods[0].delegates
    assert delegate.backend == "TrtRuntimeBackend"
    engine = delegate.engine
    assert engine is not None
    assert (engine.name, engine.container) == ("engine", "TRTN")
    assert (engine.plan_format, engine.plan_size, engine.plan_version) == (
        "tensorrt-rtx",
        200,
        "1.7.1.116",
    )
    assert [(b.name, b.role, b.dtype, b.shape) for b in engine.bindings] == [
        ("in_0", "input", "float32", ("i0d0", 8)),
        ("out_0", "output", "float32", ("i0d0", 4)),
    ]
    assert engine.bindings[0].profile == {"min": (1, 8), "opt": (2, 8), "max": (16, 8)}
    assert engine.provenance == {"builder": "by hand"}
    (entry,) = found.named_data
    assert found.segments[entry.segment].size == 200


def test_a_pte_with_its_plan_in_a_data_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    edge = trt_export.to_edge(one_call(), format="named-data", data_file="plans")
    path, _ = trt_export.save(edge, tmp_path / "model.pte")
    found = info(path)
    assert isinstance(found, PteInfo)
    assert found.problems == []
    engine = found.methods[0].delegates[0].engine
    assert engine is not None
    assert (engine.container, engine.plan_format, engine.plan_size) == (
        "TRTN, plan in a data file",
        "tensorrt-rtx",
        200,
    )
    assert main(["info", str(path)]) == 0
    assert "compile specs: data_file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (0, b"TRT9", "begins with b'TRTN', found b'TRT9'"),
        (4, b"\2", "found version 2 and flags 0"),
        (6, b"\1", "found version 1 and flags 1"),
        (8, struct.pack("<I", 2**31), "expected metadata behind at least 64 bytes"),
        (24, bytes(32), "is not among the file's named data"),
        (64, b"[", "metadata of a delegate is not JSON"),
    ],
)
def test_a_damaged_reference_is_told(
    named_pte: Path, tmp_path: Path, at: int, data: bytes, problem: str
) -> None:
    damage_blob(named_pte, tmp_path / "bad.pte", at, data)
    found = info(tmp_path / "bad.pte")
    assert isinstance(found, PteInfo)
    (told,) = found.problems
    assert problem in told


def test_a_damaged_plan_in_named_data_is_told(named_pte: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.pte").write_bytes(named_pte.read_bytes().replace(b"vtrt", b"what"))
    found = info(tmp_path / "bad.pte")
    assert isinstance(found, PteInfo)
    assert "the plan is damaged: sha256" in found.problems[0]


def test_a_pt2_with_an_engine(engine_pt2: Path) -> None:
    found = info(engine_pt2)
    assert isinstance(found, Pt2Info)
    assert found.problems == []
    (stored,) = found.engines
    assert stored.engine is not None
    assert (stored.engine.plan_format, stored.engine.plan_size) == ("tensorrt-rtx", 200)
    assert stored.engine.bindings[0].shape == ("i0d0", 8)
    assert stored.engine.bindings[0].profile == {"min": (1, 8), "opt": (2, 8), "max": (16, 8)}


def test_the_content_decides_not_the_name(pte: Path, tmp_path: Path) -> None:
    other = tmp_path / "model.pt2"
    other.write_bytes(pte.read_bytes())
    assert info(other).kind == "pte"


def test_json_goes_to_stdout_and_nothing_else(
    command: Command, pte: Path, engine_pt2: Path
) -> None:
    for path, kind in ((pte, "pte"), (engine_pt2, "pt2")):
        done = command("info", path, "--json")
        assert (done.returncode, done.stderr) == (0, "")
        found = json.loads(done.stdout)
        assert (found["kind"], found["file"]) == (kind, str(path))


def test_text_for_people(capsys: pytest.CaptureFixture[str], pte: Path, engine_pt2: Path) -> None:
    assert main(["info", str(pte)]) == 0
    text = capsys.readouterr().out
    assert "method forward" in text
    assert "input 0: float32 [16, 8] (bounded: sizes are the largest)" in text
    assert "plan: tensorrt-rtx version 1.7.1.116, 200 bytes" in text
    assert "compute capabilities: 8.0, 8.6, 8.9" in text
    assert "made with: builder by hand" in text
    assert main(["info", str(engine_pt2)]) == 0
    text = capsys.readouterr().out
    assert "engine engine (trt_runtime.Engine)" in text
    assert "input in_0: float32 [i0d0, 8] min [1, 8] opt [2, 8] max [16, 8]" in text


def test_files_without_engines(
    capsys: pytest.CaptureFixture[str], plain_pt2: Path, tmp_path: Path
) -> None:
    manager = to_edge_transform_and_lower(export(torch.nn.ReLU(), (torch.ones(2),)))
    trt_export.save(manager, tmp_path / "plain.pte")
    assert main(["info", str(tmp_path / "plain.pte")]) == 0
    assert "no delegates" in capsys.readouterr().out
    assert main(["info", str(plain_pt2)]) == 0
    assert "calls of engines: 0" in capsys.readouterr().out


def damage_blob(pte: Path, target: Path, at: int, data: bytes) -> None:
    """A copy of a `.pte` whose engine blob is overwritten at some place."""
    found = info(pte)
    assert isinstance(found, PteInfo)
    content = bytearray(pte.read_bytes())
    start = found.methods[0].delegates[0].offset + at
    content[start : start + len(data)] = data
    target.write_bytes(content)


@pytest.mark.parametrize(
    ("at", "data", "problem"),
    [
        (0, b"TR99", "found b'TR99'"),
        (8, struct.pack("<I", 2**31), "behind its engine's start"),
        (32, b"[", "metadata is not JSON"),
    ],
)
def test_a_damaged_payload_is_told_and_the_rest_is_shown(
    capsys: pytest.CaptureFixture[str],
    pte: Path,
    tmp_path: Path,
    at: int,
    data: bytes,
    problem: str,
) -> None:
    damage_blob(pte, tmp_path / "bad.pte", at, data)
    assert main(["info", str(tmp_path / "bad.pte"), "--json"]) == 1
    captured = capsys.readouterr()
    (delegate,) = json.loads(captured.out)["methods"][0]["delegates"]
    assert problem in delegate["problem"]
    assert delegate["engine"] is None
    assert problem in captured.err


def test_a_payload_with_a_plan_of_unknown_format(pte: Path, tmp_path: Path) -> None:
    data = pte.read_bytes()
    (tmp_path / "bad.pte").write_bytes(data.replace(b"vtrt", b"what"))
    found = info(tmp_path / "bad.pte")
    assert isinstance(found, PteInfo)
    assert "not a plan" in found.problems[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"hello there", "is neither a .pte nor a .pt2: it begins with b'hello th'"),
        (b"PK\x03\x04broken", "is no readable .pt2"),
        (bytes(4) + b"ET12", "damaged: no table"),
        (b"vtrt" + bytes(100), "neither a .pte nor a .pt2"),
    ],
)
def test_other_files(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message):
        info(path)
    assert main(["info", str(path)]) == 1


def test_names_in_a_file_do_not_steer_the_terminal(
    pte: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.pte").write_bytes(pte.read_bytes().replace(b"by hand", b"\\\\u001b"))
    main(["info", str(tmp_path / "odd.pte")])
    text = capsys.readouterr().out
    assert "\x1b" not in text
    assert "builder \ufffd" in text


def test_info_needs_neither_torch_nor_executorch_nor_the_runtime(
    pte: Path, engine_pt2: Path
) -> None:
    import subprocess
    import sys

    script = f"""
import sys
from trt_export.cli import main
assert main(["info", {str(pte)!r}]) == 0 and main(["info", {str(engine_pt2)!r}]) == 0
heavy = {{"torch", "executorch", "onnx", "numpy", "trt_runtime", "rich"}} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_a_pte_tells_the_profiles_of_its_dynamic_dimensions(pte: Path) -> None:
    (method,) = info(pte).methods
    engine = method.delegates[0].engine
    assert engine.bindings[0].profile == {"min": (1, 8), "opt": (2, 8), "max": (16, 8)}
    assert engine.bindings[1].profile is None


def test_one_flipped_bit_in_a_plan_is_a_problem(
    pte: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = tmp_path / "damaged.pte"
    data = bytearray(pte.read_bytes())
    data[data.index(b"vtrt") + 150] ^= 1
    damaged.write_bytes(data)
    assert main(["info", str(damaged)]) == 1
    assert "the plan is damaged: sha256" in capsys.readouterr().err
