"""`trt-export doctor`."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import trt_export
import trt_runtime
from export.cli.conftest import Command
from export.engines.standins import accessors, methods_of
from export.programs import one_output_engine
from trt_export import doctor
from trt_export.cli import main
from trt_export.engines.library import engine_library
from trt_export.engines.probe import CAPABILITIES, Capability

pytestmark = pytest.mark.usefixtures("unasked")


def test_a_machine_with_everything(command: Command) -> None:
    done = command("doctor", "--json")
    assert done.stderr == ""
    report = json.loads(done.stdout)
    capabilities = {option["name"]: option["available"] for option in report["capabilities"]}
    names = trt_export.probe(one_output_engine()).names
    assert capabilities == {item.name: item.name in names for item in CAPABILITIES}
    # Something falls back with an older runtime.
    assert done.returncode == (0 if all(capabilities.values()) else 1)
    assert report["runtime_version"] == trt_runtime.__version__
    packages = {package["name"]: package for package in report["packages"]}
    assert packages["torch"]["version"] == torch.__version__
    assert set(packages) >= {
        "trt-export",
        "trt-runtime",
        "executorch",
        "onnx",
        "onnxscript",
        "onnxruntime",
    }
    assert all(package["problem"] is None for package in packages.values())
    assert Path(report["runtime_library"]).name == "libtrt_runtime.so"
    builders = {option["name"]: option for option in report["builders"]}
    assert builders["onnxruntime"]["available"]
    assert builders["tensorrt-rtx"]["available"]
    executors = {option["name"]: option for option in report["executors"]}
    assert executors["onnxruntime"]["available"]


def test_a_builder_and_an_executor_that_are_not_installed(without_tensorrt: None) -> None:
    report = doctor.examine()
    builder = next(option for option in report.builders if option.name == "tensorrt")
    assert not builder.available
    assert 'pip install "trt-export[tensorrt]"' in builder.detail
    executor = next(option for option in report.executors if option.name == "tensorrt")
    assert not executor.available
    assert executor.remedy == 'pip install "trt-runtime[tensorrt]"'
    assert report.healthy == all(option.available for option in report.capabilities)


def with_engine(monkeypatch: pytest.MonkeyPatch, *names: str, **changes: Any) -> None:
    """As if the runtime had these methods only."""
    engine = one_output_engine()
    methods = {name: accessors(engine)[name] for name in names} | changes
    monkeypatch.setattr(doctor, "_engine", lambda: methods_of(engine, **methods))


def test_a_runtime_with_every_capability(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with_engine(monkeypatch, *(item.method for item in CAPABILITIES))
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    path = engine_library("trt_runtime.Engine").path
    assert f"runtime library: {path} (version {trt_runtime.__version__})" in lines
    assert [line for line in lines if line.startswith("capability ")] == [
        "capability tracing-mode-real: yes, tracing_mode()",
        "capability metadata-only: yes, serialize_metadata_only()",
        "capability engine-tensor: yes, serialized_engine_tensor()",
        "capability plan-digest: yes, plan_sha256()",
        "capability named-data-delegate: yes, capabilities()",
    ]
    assert not any("pip install -U" in line for line in lines)


@pytest.mark.parametrize("lacking", CAPABILITIES, ids=lambda item: item.name)
def test_a_capability_that_is_missing_costs_something_and_has_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacking: Capability
) -> None:
    with_engine(monkeypatch, *(item.method for item in CAPABILITIES if item is not lacking))
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    told = f"capability {lacking.name}: no, no method {lacking.method}(): {lacking.cost}"
    assert lines[lines.index(told) + 1] == "  pip install -U 'trt-runtime>=0.5.0'"
    assert sum(line.startswith("capability ") and ": no," in line for line in lines) == 1


def test_another_tracing_mode_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with_engine(monkeypatch, tracing_mode=lambda: "rael")
    report = doctor.examine()
    assert report.capabilities[0].detail.startswith("tracing_mode() returns 'rael', not 'real'")
    assert not report.healthy


def test_a_runtime_whose_engines_cannot_be_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ImportError("no such library")

    monkeypatch.setattr(doctor, "_engine", fail)
    assert main(["doctor"]) == 1
    assert (
        "capability all: no, no engine could be made to ask: ImportError: no such library"
        in capsys.readouterr().out
    )


def test_without_a_gpu_the_reason_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", None)
    report = doctor.examine()
    assert report.gpus == ()
    assert report.no_gpu_reason == f"torch {torch.__version__} is a build for the CPU"
    executor = next(option for option in report.executors if option.name == "tensorrt-rtx")
    assert not executor.available
    assert "it needs a GPU" in executor.detail


def test_a_gpu_build_of_torch_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("Found no NVIDIA driver on your system.\nmore")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", fail)
    assert doctor.examine().no_gpu_reason == "Found no NVIDIA driver on your system."


def test_gpus_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: f"GPU {index}")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (8, 9))
    report = doctor.examine()
    assert report.gpus == ("0: GPU 0, compute capability 8.9", "1: GPU 1, compute capability 8.9")
    assert report.no_gpu_reason is None
    assert next(option for option in report.executors if option.name == "tensorrt-rtx").available


@pytest.mark.parametrize("installed", [True, False])
def test_something_needed_that_is_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], installed: bool
) -> None:
    needed = (("torch" if installed else "no-such-package", "no_such_module"),)
    monkeypatch.setattr(doctor, "_NEEDED", needed)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert f"BROKEN {needed[0][0]}" in text
    assert "ModuleNotFoundError: No module named 'no_such_module'" in text
    assert (
        f"pip install {'--force-reinstall --no-deps ' if installed else ''}{needed[0][0]}" in text
    )
