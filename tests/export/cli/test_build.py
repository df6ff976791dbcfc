"""`trt-export build`, on real files."""

import gc
import json
import sys
from pathlib import Path

import pytest
import torch
from torch.export import Dim, export

import trt_export
import trt_runtime
from export.cli.conftest import Command
from export.programs import one_output_engine
from trt_export.building import load_program, parse_dynamic
from trt_export.cli import main
from trt_export.errors import UsageError
from trt_export.inspecting import PteInfo, info
from trt_export.report_lines import size_text


def build(*arguments: object) -> int:
    return main(["build", *map(str, arguments)])


def test_a_pt2_becomes_a_pte(command: Command, plain_pt2: Path, tmp_path: Path) -> None:
    done = command(
        "build", plain_pt2, "-o", "model.pte", "--save-program", "compiled.pt2", "--json"
    )
    assert done.returncode == 0, done.stderr
    # One line for each capability that an older runtime lacks; they are not silenced with the rest.
    lacking = [
        name
        for name in ("metadata-only", "engine-tensor", "plan-digest", "named-data-delegate")
        if name not in trt_export.probe(one_output_engine())
    ]
    lines = done.stderr.splitlines()
    assert len(lines) == len(lacking)
    for name, line in zip(lacking, lines, strict=True):
        assert line.startswith("trt-export: engines of class trt_runtime.Engine lack")
        assert name in line
        assert line.endswith("pip install -U 'trt-runtime>=0.5.0'")
    result = json.loads(done.stdout)
    assert [file["path"] for file in result["files"]] == ["model.pte", "compiled.pt2"]
    assert [file["size"] for file in result["files"]] == [
        (tmp_path / name).stat().st_size for name in ("model.pte", "compiled.pt2")
    ]
    assert result["builder"] == "onnxruntime"
    (engine,) = result["engines"]
    assert sum(engine["operators"].values()) == 3
    assert result["left_in_pytorch"] == []
    assert result["verified"] is True
    assert "example inputs" in result["verification"]["samples"]
    assert engine["verification"]["verified"] is True
    assert engine["verification"]["compared"][0] == "example inputs"
    assert {"load", "partition", "build", "validate", "lower", "emit", "write"} < set(
        result["seconds"]
    )
    assert result["phases"] == []
    found = info(tmp_path / "model.pte")
    assert isinstance(found, PteInfo)
    (delegate,) = found.methods[0].delegates
    assert delegate.engine is not None
    assert delegate.engine.plan_format == "onnxruntime"
    assert delegate.engine.plan_size == engine["plan_size"]
    assert delegate.engine.provenance["trt_export"] == trt_export.__version__


def test_the_saved_program_computes_what_the_model_computes(
    plain_pt2: Path, tmp_path: Path
) -> None:
    assert build(plain_pt2, "-o", tmp_path / "m.pte", "--save-program", tmp_path / "m.pt2") == 0
    compiled = torch.export.load(tmp_path / "m.pt2").module()
    original = torch.export.load(plain_pt2).module()
    for size in (1, 5, 16):
        x = torch.randn(size, 8)
        torch.testing.assert_close(compiled(x), original(x), rtol=1e-5, atol=1e-5)


def test_a_real_tensorrt_rtx_engine(
    plain_pt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "rtx.pte"
    assert (
        build(plain_pt2, "-o", output, "--builder", "tensorrt-rtx", "--compute-capability", "8.9")
        == 0
    )
    assert "tensorrt-rtx, cuda:0" in capsys.readouterr().out
    found = info(output)
    assert isinstance(found, PteInfo)
    engine = found.methods[0].delegates[0].engine
    assert engine is not None
    assert (engine.plan_format, engine.device) == ("tensorrt-rtx", "cuda:0")
    assert engine.compute_capabilities == ("8.9",)


def test_a_program_with_engines_is_lowered_as_it_is(
    engine_pt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(engine_pt2, "-o", tmp_path / "a.pte", "--json") == 0
    assert json.loads(capsys.readouterr().out)["builder"] is None
    found = info(tmp_path / "a.pte")
    assert isinstance(found, PteInfo)
    assert found.methods[0].delegates[0].engine is not None
    for options in (
        ["--builder", "onnxruntime"],
        ["--compute-capability", "8.9"],
        ["--dynamic", "a=1:2:3"],
    ):
        assert build(engine_pt2, "-o", tmp_path / "b.pte", *options) == 2
        assert "holds engines already" in capsys.readouterr().err


def mapped(path: Path) -> bool:
    return str(path) in Path("/proc/self/maps").read_text()


def test_the_plans_of_a_program_are_mapped(engine_pt2: Path) -> None:
    program = load_program(engine_pt2)
    assert mapped(engine_pt2)
    del program
    gc.collect()
    assert not mapped(engine_pt2)


def test_a_runtime_that_maps_no_program_reads_it(
    engine_pt2: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(trt_runtime, "load_program")
    program = load_program(engine_pt2)
    assert not mapped(engine_pt2)
    assert list(program.constants) == ["engine"]


def test_an_unbounded_dimension_is_bounded_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = export(torch.nn.Linear(8, 4), (torch.ones(2, 8),), dynamic_shapes=({0: Dim.AUTO},))
    torch.export.save(program, tmp_path / "m.pt2")
    assert build(tmp_path / "m.pt2", "-o", tmp_path / "m.pte") == 1
    assert "input.0" in capsys.readouterr().err
    assert build(tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--dynamic", "input.0=1:4:32") == 0
    found = info(tmp_path / "m.pte")
    assert isinstance(found, PteInfo)
    assert found.methods[0].inputs[0].sizes == (32, 8)


def test_what_stays_in_pytorch_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(torch.relu(x).to(torch.int16)).to(torch.float32) * 2

    torch.export.save(export(Model(), (torch.ones(4),)), tmp_path / "m.pt2")
    code = build(
        tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--builder", "tensorrt-rtx", "--json"
    )
    assert code == 0
    left = json.loads(capsys.readouterr().out)["left_in_pytorch"]
    assert left
    assert all(node["reason"] and node["operator"] for node in left)


def test_what_computes_otherwise_on_special_values_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.amax(x, 0)

    torch.export.save(export(Model(), (torch.ones(4, 3),)), tmp_path / "m.pt2")
    assert build(tmp_path / "m.pt2", "-o", tmp_path / "m.pte", "--json") == 0
    told = json.loads(capsys.readouterr().out)["differences"]
    assert "NaN" in told["aten.amax.default"]
    assert build(tmp_path / "m.pt2", "-o", tmp_path / "m.pte") == 0
    assert (
        f"differs from PyTorch: aten.amax.default: {told['aten.amax.default']}\n"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["missing.pt2", "-o", "x.pte"], 2, "missing.pt2: expected a file that can be read"),
        ([".", "-o", "x.pte"], 2, "found a directory; name a .pte or .pt2"),
        (["PLAIN", "-o", "no/such/x.pte"], 2, "there is no directory no/such"),
        (["PLAIN", "-o", "."], 2, "it is a directory; name a file"),
        (["PLAIN", "-o", "/proc/self/x.pte"], 2, "cannot write into /proc/self"),
        (["PLAIN", "-o", "PLAIN"], 2, "must be different files"),
        (["PLAIN", "-o", "x.pte", "--save-program", "x.pte"], 2, "must be different files"),
        (["PLAIN", "-o", "x.pte", "--dynamic", "batch"], 2, "expected NAME=MIN:OPT:MAX"),
        (["PTE", "-o", "x.pte"], 1, "is a .pte, which is lowered already"),
        (["text.pt2", "-o", "x.pte"], 1, "is not a .pt2: it begins with b'hello'"),
        (["cut.pt2", "-o", "x.pte"], 1, "is no readable .pt2"),
        (["PLAIN", "-o", "x.pte", "--builder", "nothing"], 2, "there is no builder 'nothing'"),
        (
            ["PLAIN", "-o", "x.pte", "--builder", "tensorrt"],
            1,
            'pip install "trt-export[tensorrt]"',
        ),
        (
            ["PLAIN", "-o", "x.pte", "--compute-capability", "8.9"],
            1,
            "takes no compute capabilities",
        ),
        (
            ["PLAIN", "-o", "x.pte", "--builder", "tensorrt-rtx", "--compute-capability", "9.0"],
            1,
            "9.0",
        ),
        (["PLAIN", "-o", "x.pte", "--dynamic", "nothing.3=1:2:3"], 1, "nothing.3"),
    ],
)
def test_bad_arguments_and_files(
    arguments: list[str],
    code: int,
    message: str,
    plain_pt2: Path,
    pte: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    without_tensorrt: None,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.pt2").write_text("hello")
    Path("cut.pt2").write_bytes(plain_pt2.read_bytes()[:1000])
    before = sorted(tmp_path.iterdir())
    names = {"PLAIN": str(plain_pt2), "PTE": str(pte)}
    assert build(*(names.get(argument, argument) for argument in arguments)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.startswith("trt-export: error: ")
    assert sorted(tmp_path.iterdir()) == before


def test_bad_output_is_found_before_the_work_begins(
    plain_pt2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_tensorrt: None
) -> None:
    monkeypatch.setattr("trt_export.building.load_program", lambda path: pytest.fail("work began"))
    assert build(plain_pt2, "-o", tmp_path / "no" / "x.pte") == 2
    assert (
        build(plain_pt2, "-o", tmp_path / "x.pte", "--save-program", tmp_path / "no" / "x.pt2") == 2
    )
    assert build(plain_pt2, "-o", tmp_path / "x.pte", "--builder", "tensorrt") == 1


def test_an_engine_that_cannot_be_lowered_leaves_the_old_file(
    tmp_path: Path, engine_pt2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = torch.export.load(engine_pt2)
    program.constants["engine"] = one_output_engine(requires_output_allocator=True)
    torch.export.save(program, tmp_path / "m.pt2")
    output = tmp_path / "m.pte"
    output.write_bytes(b"old")
    assert build(tmp_path / "m.pt2", "-o", output) == 1
    assert "requires an output allocator" in capsys.readouterr().err
    assert output.read_bytes() == b"old"


def test_user_errors_show_no_traceback(command: Command, tmp_path: Path) -> None:
    (tmp_path / "m.pt2").write_bytes(b"PK\x03\x04")
    done = command("build", "m.pt2", "-o", "m.pte")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [[], ["build"], ["build", "m.pt2"], ["nothing"], ["info"], ["info", "a", "b"], ["doctor", "x"]],
)
def test_wrong_usage_exits_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: trt-export" in captured.err


@pytest.mark.parametrize(
    "arguments", [["--help"], ["build", "--help"], ["info", "-h"], ["doctor", "-h"]]
)
def test_help_has_an_example(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 0
    assert "example: trt-export" in capsys.readouterr().out


def test_the_command_is_installed() -> None:
    assert (Path(sys.executable).parent / "trt-export").exists()


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"trt-export {trt_export.__version__}\n"


def test_dynamic_options() -> None:
    assert parse_dynamic(["tokens.1=1:64:256", "s3=2:2:2"]) == {
        "tokens.1": (1, 64, 256),
        "s3": (2, 2, 2),
    }
    for text in ("a", "a=", "a=1", "a=1:2", "a=1:2:3:4", "=1:2:3", "a=1:x:3", "a=-1:2:3", "a=1:2:"):
        with pytest.raises(UsageError, match="expected NAME=MIN:OPT:MAX"):
            parse_dynamic([text])
    with pytest.raises(UsageError, match="names 'a' twice"):
        parse_dynamic(["a=1:2:3", "a=1:2:3"])


def test_sizes_for_people() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 95_900_000, 3_200_000_000)] == [
        "0 bytes",
        "999 bytes",
        "1.0 kB",
        "95.9 MB",
        "3.2 GB",
    ]


def test_the_time_of_verification_is_an_option(
    tmp_path: Path, plain_pt2: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert build(plain_pt2, "-o", tmp_path / "a.pte", "--verify-seconds", "0") == 0
    printed = capsys.readouterr().out
    assert "compared with PyTorch on example inputs (the engine, run by trt-runtime" in printed
    assert "not compared on zeros and False: no time left" in printed
    for wrong in ("-1", "nan", "inf", "soon"):
        with pytest.raises(SystemExit) as exit:
            build(plain_pt2, "-o", tmp_path / "b.pte", "--verify-seconds", wrong)
        assert exit.value.code == 2
        assert "expected a number of seconds" in capsys.readouterr().err
