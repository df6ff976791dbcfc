"""`trt-export build --trace`: what each phase costs, as a table and for a trace viewer; and its other new options."""

import itertools
import json
from pathlib import Path

import pytest

import trt_export
import trt_runtime
from export.cli.conftest import Command
from trt_export.cli import main
from trt_export.phases import Recorder, Span, seconds_by_phase


def test_every_phase_is_in_the_table_and_in_the_file(
    command: Command, plain_pt2: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "out.json"
    done = command("build", plain_pt2, "-o", tmp_path / "model.pte", "--trace", trace, "--json")
    assert done.returncode == 0
    result = json.loads(done.stdout)
    assert [file["path"] for file in result["files"]] == [str(tmp_path / "model.pte"), str(trace)]
    data = json.loads(trace.read_text())
    events = data["traceEvents"]
    names = [event["name"] for event in events]
    assert names == [phase["phase"] for phase in result["phases"]]
    wanted = ("load", "partition", "onnx", "build", "validate", "rewrite", "lower", "emit", "write")
    assert [name for name in names if name in wanted] == [*wanted]
    assert {event["ph"] for event in events} == {"X"}
    for before, after in itertools.pairwise(events):
        assert abs(before["ts"] + before["dur"] - after["ts"]) <= 2  # microseconds, rounded
    by_name = {event["name"]: event["args"] for event in events}
    assert by_name["write"]["written_bytes"] >= (tmp_path / "model.pte").stat().st_size
    assert by_name["load"]["peak_memory_bytes"] > 0
    hashed = {name: args["plan_hashes"] for name, args in by_name.items() if "plan_hashes" in args}
    if "plan-digest" in trt_runtime.capabilities():
        # What is verified is an engine of its own: its plan is hashed for its record, and before it first runs.
        assert hashed == {"build": 1, "verify": 2}
    assert set(result["seconds"]) == set(names)


def test_the_table_is_for_people(
    plain_pt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "model.pte"), "--trace", str(tmp_path / "out.json")]
    assert main(["build", str(plain_pt2), *out]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = (index for index, line in enumerate(lines) if line.startswith("phase "))
    assert lines[head].split() == [
        "phase",
        "seconds",
        "peak",
        "memory",
        "read",
        "written",
        "whole",
        "plans",
    ]
    assert any(line.startswith("write ") for line in lines[head:])


def test_a_trace_needs_a_place(
    plain_pt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "model.pte")]
    assert main(["build", str(plain_pt2), *out, "--trace", str(tmp_path / "no" / "t.json")]) == 2
    assert main(["build", str(plain_pt2), *out, "--trace", str(tmp_path / "model.pte")]) == 2
    assert list(tmp_path.iterdir()) == []
    assert "must be different files" in capsys.readouterr().err


def test_a_data_file_is_written_beside_the_program(plain_pt2: Path, tmp_path: Path) -> None:
    out = ["-o", str(tmp_path / "model.pte"), "--format", "named-data", "--data-file", "plans"]
    assert main(["build", str(plain_pt2), *out]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.pte", "plans.ptd"]


def test_a_data_file_over_another_output_is_refused(
    plain_pt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = ["-o", str(tmp_path / "model.pte"), "--format", "named-data", "--data-file", "plans"]
    assert main(["build", str(plain_pt2), *out, "--trace", str(tmp_path / "plans.ptd")]) == 2
    assert "must be another file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("format", "backend"), [("named-data", "TrtRuntimeBackend"), ("tr01", "TensorRTBackend")]
)
def test_a_format_is_asked_for_by_name(
    format: str, backend: str, plain_pt2: Path, tmp_path: Path
) -> None:
    out = ["-o", str(tmp_path / "model.pte"), "--format", format]
    assert main(["build", str(plain_pt2), *out]) == 0
    found = trt_export.info(tmp_path / "model.pte")
    assert [item.backend for method in found.methods for item in method.delegates] == [backend]


def test_a_recorder_adds_up_what_comes_again() -> None:
    steps: list[tuple[str, int, int]] = []
    recorder = Recorder(lambda *step: steps.append(step))
    for phase, done in (("a", 0), ("a", 1), ("b", 0), ("a", 0)):
        recorder.step(phase, done, 2)
    spans = recorder.finish()
    assert [span.phase for span in spans] == ["a", "b", "a"]
    assert steps == [("a", 0, 2), ("a", 1, 2), ("b", 0, 2), ("a", 0, 2)]
    seconds = seconds_by_phase(spans)
    assert list(seconds) == ["a", "b"]
    assert seconds["a"] == spans[0].seconds + spans[2].seconds
    assert recorder.finish() == spans


def test_a_span_tells_its_peak_not_that_of_the_process() -> None:
    recorder = Recorder()
    recorder.step("large")
    large = bytearray(1 << 27)
    del large
    recorder.step("small")
    first, second = recorder.finish()
    assert isinstance(first, Span)
    assert first.peak_memory is not None
    assert second.peak_memory is not None
    assert first.peak_memory - second.peak_memory > 1 << 26
