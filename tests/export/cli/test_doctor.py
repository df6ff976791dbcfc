"""`trt-export doctor`."""

import json
from pathlib import Path

import pytest
import torch

from export.cli.conftest import Command
from trt_export import doctor
from trt_export.cli import main


def test_a_healthy_machine(command: Command) -> None:
    done = command("doctor", "--json")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    report = json.loads(done.stdout)
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
    assert report.healthy


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
