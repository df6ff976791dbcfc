"""The TensorRT builders: real TensorRT-RTX engines without a GPU, in processes that leave nothing behind."""

import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

from export.builders.requests import matmul_request
from trt_export.builders import BuildRequest, NodesRefused, get_builder
from trt_export.builders import tensorrt as module
from trt_export.errors import BuildFailedError, ComputeCapabilityError, MissingBuilderError
from trt_export.plan import read_plan_header

LARGE = np.random.default_rng(0).normal(size=(4, 500)).astype(np.float32)


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files: empty after every test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture(autouse=True)
def _nothing_left_behind(scratch: Path) -> object:
    yield
    assert list(scratch.iterdir()) == []


def test_a_plan_is_a_tensorrt_rtx_engine_for_the_stated_capabilities() -> None:
    builder = get_builder("tensorrt-rtx", ["8.6", "sm_120"])
    header = read_plan_header(builder.build(matmul_request(LARGE)))
    assert header.format == "tensorrt-rtx"
    assert header.version == builder.provenance()["builder_version"]
    assert header.compute_capabilities == ("8.6", "12.0")
    assert builder.provenance()["compute_capabilities"] == ["8.6", "12.0"]


def test_by_default_it_is_for_all_capabilities_that_every_type_is_built_for() -> None:
    provenance = get_builder("tensorrt-rtx").provenance()
    assert provenance["compute_capabilities"] == ["8.0", "8.6", "8.9", "12.0", "12.1"]


def test_plans_are_the_same_every_time() -> None:
    builder = get_builder("tensorrt-rtx", ["8.6"])
    assert builder.build(matmul_request(LARGE)) == builder.build(matmul_request(LARGE))


@pytest.mark.parametrize("text", ["9.0", "8", "hopper", "", "8.6.1", "99.9"])
def test_an_unsupported_capability_lists_the_supported_ones(text: str) -> None:
    with pytest.raises(
        ComputeCapabilityError, match=r"it offers 7\.5, 8\.0, 8\.6, 8\.9, 12\.0, 12\.1"
    ):
        get_builder("tensorrt-rtx", [text])


@pytest.mark.parametrize("stated", [[], "8.6"])
def test_capabilities_are_a_list_with_something_in_it(stated: object) -> None:
    with pytest.raises(ComputeCapabilityError, match="expected a list"):
        get_builder("tensorrt-rtx", stated)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["tensorrt", "tensorrt-rtx"])
def test_a_missing_package_names_the_extra_to_install(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    with pytest.raises(MissingBuilderError, match=rf'pip install "trt-export\[{name}\]"'):
        get_builder(name)


def test_a_package_that_does_not_work_is_an_error_with_its_own_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: object())
    module._describe.cache_clear()
    with pytest.raises(MissingBuilderError, match="No module named 'tensorrt'"):
        get_builder("tensorrt")


_PACKAGE = """
class ILogger: pass
class ComputeCapability: pass
ComputeCapability.__members__ = {"SM86": 0}
__version__ = "7.7.7"
"""


@pytest.mark.parametrize("place", ["PYTHONPATH", "user site"])
def test_a_package_that_this_process_finds_is_found_by_the_worker(
    place: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A worker runs with `-I`, which hides both places from it; the package here only has a version."""
    base = tmp_path_factory.mktemp("base")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = base if place == "PYTHONPATH" else base / "lib" / f"python{version}" / "site-packages"
    (folder / "tensorrt").mkdir(parents=True)
    (folder / "tensorrt" / "__init__.py").write_text(_PACKAGE)
    program = (
        "import site, sys; site.addsitedir(sys.argv[1]) if sys.argv[2] == 'user site' else None\n"
        "from trt_export.builders import get_builder; print(get_builder('tensorrt').version)"
    )
    environment = os.environ | ({"PYTHONPATH": str(folder)} if place == "PYTHONPATH" else {})
    done = subprocess.run(
        [sys.executable, "-c", program, str(folder), place],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "7.7.7", done.stderr


def test_all_refused_nodes_are_found_at_once() -> None:
    request = matmul_request(np.eye(4, dtype=np.float32), operator="NonZero")
    refusals = get_builder("tensorrt-rtx").check(request)
    assert [refusal.onnx_node for refusal in refusals] == ["n1_NonZero"]
    with pytest.raises(NodesRefused) as refused:
        get_builder("tensorrt-rtx").build(request)
    assert [refusal.onnx_node for refusal in refused.value.refusals] == ["n1_NonZero"]


def test_a_type_that_the_parser_changes_is_refused() -> None:
    request = matmul_request()
    (output,) = request.outputs
    other = BuildRequest(
        request.name,
        request.model,
        request.inputs,
        (output.__class__("out_0", "float16", output.shape),),
    )
    (refusal,) = get_builder("tensorrt-rtx").check(other)
    assert refusal.onnx_node == "n1_Relu"
    assert "expected" in refusal.reason


def test_impossible_bounds_are_an_error_and_no_crash() -> None:
    request = matmul_request()
    (entry,) = request.inputs
    bad = entry.__class__("in_0", "float32", entry.shape, (8, 4), (2, 4), (1, 4))
    with pytest.raises(BuildFailedError, match="tensorrt-rtx"):
        get_builder("tensorrt-rtx").build(
            BuildRequest(request.name, request.model, (bad,), request.outputs)
        )


def _use_worker(monkeypatch: pytest.MonkeyPatch, path: Path, text: str) -> None:
    builder = get_builder("tensorrt-rtx")  # asks the real worker, before it is replaced
    assert builder
    path.write_text(text)
    monkeypatch.setattr(module, "_WORKER", path)


@pytest.fixture
def worker_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker") / "worker.py"


def test_a_crash_of_the_library_is_a_refusal(
    monkeypatch: pytest.MonkeyPatch, worker_file: Path
) -> None:
    _use_worker(monkeypatch, worker_file, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    (refusal,) = get_builder("tensorrt-rtx").check(matmul_request())
    assert refusal.onnx_node is None
    assert f"signal {signal.SIGSEGV.value}" in refusal.reason


def test_a_worker_that_fails_is_an_error_with_its_stderr(
    monkeypatch: pytest.MonkeyPatch, worker_file: Path
) -> None:
    _use_worker(monkeypatch, worker_file, "raise RuntimeError('no driver')")
    with pytest.raises(BuildFailedError, match=r"exit code 1(.|\n)*no driver"):
        get_builder("tensorrt-rtx").build(matmul_request())


def test_no_room_for_the_model_is_an_error_that_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: object, directory: Path) -> Path:
        raise OSError(28, "No space left on device")

    builder = get_builder("tensorrt-rtx")
    monkeypatch.setattr("trt_export.builders.OnnxFile.write", full)
    with pytest.raises(BuildFailedError, match="No space left on device; set TMPDIR"):
        builder.build(matmul_request())


def test_devices() -> None:
    builder = get_builder("tensorrt-rtx")
    assert [builder.device(name) for name in ("cpu", "cuda", "cuda:1")] == [
        "cuda:0",
        "cuda:0",
        "cuda:1",
    ]
    assert get_builder("onnxruntime").device("cpu") == "cpu"
