"""What the wheel and the sdist hold, and what they ask for."""

from __future__ import annotations

import re
import tarfile
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
import torch
from scikit_build_core.build import build_sdist

from .building import RELU_PLAN

pytestmark = pytest.mark.as_released

PACKAGE = Path(__file__).parents[2] / "packages" / "runtime"


@pytest.fixture(scope="module")
def installed() -> dict[str, int]:
    """The files of the installed wheel and their sizes."""
    files = distribution("trt-runtime").files
    return {
        str(path): path.locate().stat().st_size
        for path in files
        if "__pycache__" not in path.parts
        and path.name != "trt-runtime"  # the command, made by pip
    }


def test_the_wheel_holds_the_package_and_nothing_else(installed) -> None:
    names = {name for name in installed if not re.match(r"trt_runtime-[\d.]+\.dist-info/", name)}
    libraries = {name for name in names if ".so" in name}
    assert {re.sub(r"\.cpython-\w+-[\w-]+\.so", ".so", name) for name in libraries} == {
        "trt_runtime/_native.so",
        "trt_runtime/libtrt_runtime.so",
        "trt_runtime/libtrt_runtime_delegate.so",
    }
    sources = PACKAGE / "src"
    assert names - libraries == {"trt_runtime/build_info.json"} | {
        path.relative_to(sources).as_posix()
        for path in sources.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {"trt_runtime/py.typed", "trt_runtime/_native.pyi"} <= names


def test_the_wheel_is_small_for_it_bundles_no_torch(installed) -> None:
    assert sum(installed.values()) < 2_000_000


def test_every_requirement_is_bounded_on_both_sides() -> None:
    requirements = distribution("trt-runtime").requires
    assert {re.split(r"[^\w-]", line)[0] for line in requirements} == {
        "torch",
        "onnxruntime",
        "tensorrt",
        "tensorrt-rtx",
        "executorch",
        "flatbuffers",
        "numpy",
    }
    assert all(">=" in line and "<" in line for line in requirements)


def test_the_sdist_builds_from_what_it_holds(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(PACKAGE)
    archive = tmp_path / build_sdist(str(tmp_path))
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    native = {
        path.relative_to(PACKAGE).as_posix()
        for path in (PACKAGE / "native").rglob("*")
        if path.is_file()
    }
    assert native | {"CMakeLists.txt", "pyproject.toml", "README.md", "CHANGELOG.md"} <= names
    assert {"src/trt_runtime/py.typed", "src/trt_runtime/_native.pyi"} <= names
    assert not [name for name in names if name.endswith((".so", ".pyc", ".o"))]


@pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")  # torch's own
def test_the_example_of_the_readme_runs(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("relu.plan").write_bytes(RELU_PLAN)
    code, _ = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    x = torch.randn(4, 8)
    module = torch.export.load("model.pt2").module()
    assert torch.equal(module(x), (x + 1).relu() * 2)
