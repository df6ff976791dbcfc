"""The import: what it checks before and after the native library is loaded."""

from __future__ import annotations

import importlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

import trt_runtime
from trt_runtime import LibraryMismatchError, _native
from trt_runtime.loading import check_torch, load, source_hash, warn_if_stale

PACKAGE = Path(__file__).parents[2] / "packages" / "runtime"


@pytest.mark.parametrize(
    ("built_for", "running"),
    [
        ("2.13.0", "2.13.0"),
        ("2.13.0+cpu", "2.13.0+cu130"),
        ("2.13.0+cpu", "2.13.7"),
        ("2.13.0", "2.13.1a0+git1234"),
    ],
)
def test_a_torch_of_the_same_minor_is_taken(built_for, running) -> None:
    check_torch(built_for, running)


@pytest.mark.parametrize(
    ("built_for", "running"),
    [
        ("2.13.0+cpu", "2.12.1"),
        ("2.13.0+cpu", "2.14.0"),
        ("2.13.0+cpu", "2.1.3"),
        ("2.13.0+cpu", "2.130.0"),
        ("2.13.0+cpu", "3.13.0"),
        ("2.13.0+cpu", "parrot"),
    ],
)
def test_any_other_torch_is_refused_with_both_versions_and_both_ways_out(
    built_for, running
) -> None:
    with pytest.raises(LibraryMismatchError) as caught:
        check_torch(built_for, running)
    message = str(caught.value)
    assert "expected torch 2.13.*" in message
    assert f"found torch {running}" in message
    assert "pip install 'torch==2.13.*'" in message
    assert "pip install -U trt-runtime" in message
    assert isinstance(caught.value, ImportError)


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )


def test_the_check_comes_before_the_library() -> None:
    result = run(
        "import sys, torch\n"
        "torch.__version__ = '2.99.0'\n"
        "try:\n"
        "    import trt_runtime\n"
        "except ImportError as error:\n"
        "    print(type(error).__name__, 'trt_runtime._native' in sys.modules)\n"
        "    print('libtrt_runtime' in open('/proc/self/maps').read())\n"
    )
    assert result.stdout == "LibraryMismatchError False\nFalse\n", result.stderr


def test_a_library_that_does_not_load_is_explained() -> None:
    result = run(
        "import sys, torch\n"
        "sys.modules['trt_runtime._native'] = None\n"
        "import importlib.util\n"
        "find = importlib.util.find_spec\n"
        "import importlib.machinery, pathlib\n"
        "folder = pathlib.Path(find('trt_runtime').origin).parent\n"
        "(library,) = folder.glob('_native*.so')\n"
        "spec = importlib.machinery.ModuleSpec('x', None, origin=str(library))\n"
        "importlib.util.find_spec = lambda name: spec\n"
        "import trt_runtime\n"
    )
    assert result.returncode == 1
    assert (
        f"LibraryMismatchError: trt-runtime {trt_runtime.__version__}: expected a native library that "
        "loads" in result.stderr
    )
    assert "pip install --force-reinstall --no-deps trt-runtime" in result.stderr


def test_a_source_tree_without_the_library_is_explained(tmp_path) -> None:
    source = tmp_path / "trt_runtime"
    source.mkdir()
    for path in Path(trt_runtime.__file__).parent.glob("*.py"):
        (source / path.name).write_text(path.read_text())
    result = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import trt_runtime")
    assert result.returncode == 1
    assert "LibraryMismatchError: trt-runtime: expected the native library beside" in result.stderr


def test_the_import_prints_nothing() -> None:
    result = run("import trt_runtime")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_loading_twice_is_harmless() -> None:
    assert load() is _native
    result = run(
        "import importlib, sys, trt_runtime\n"
        "importlib.reload(trt_runtime)\n"
        "for name in [name for name in sys.modules if name.startswith('trt_runtime')]:\n"
        "    del sys.modules[name]\n"
        "import trt_runtime\n"
        "import torch\n"
        "torch.ops.load_library(next(l.split()[-1] for l in open('/proc/self/maps') if 'libtrt_runtime' in l))\n"
        "print(trt_runtime.stats()['serializations'])\n"
    )
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr


def test_the_library_knows_what_it_was_built_from() -> None:
    info = _native.build_info()
    assert info["version"] == trt_runtime.__version__
    assert torch.__version__.startswith(".".join(info["torch"].split(".")[:2]))
    # The wheel under test was built from this checkout.
    assert info["native_sha256"] == source_hash(PACKAGE / "native")


def test_a_stale_build_is_noticed(tmp_path) -> None:
    native = tmp_path / "native"
    native.mkdir()
    (native / "plan.cpp").write_text("int x;")
    (native / "plan.h").write_text("extern int x;")
    built_from = source_hash(native)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_stale(built_from, tmp_path)
    (native / "plan.cpp").write_text("int y;")
    with pytest.warns(
        RuntimeWarning, match=rf"rebuild it: pip install --no-build-isolation -e {tmp_path}"
    ):
        warn_if_stale(built_from, tmp_path)


@pytest.mark.parametrize("change", ["rename", "add", "remove"])
def test_the_hash_covers_names_and_files(tmp_path, change) -> None:
    (tmp_path / "a").write_text("1")
    (tmp_path / "b").write_text("2")
    before = source_hash(tmp_path)
    if change == "rename":
        (tmp_path / "b").rename(tmp_path / "c")
    elif change == "add":
        (tmp_path / "c").touch()
    else:
        (tmp_path / "b").unlink()
    assert source_hash(tmp_path) != before


@pytest.mark.parametrize("change", ["edit", "rename", "move", "remove"])
def test_the_hash_covers_subfolders(tmp_path, change) -> None:
    inner = tmp_path / "delegate"
    inner.mkdir()
    (tmp_path / "a").write_text("1")
    (inner / "b").write_text("2")
    before = source_hash(tmp_path)
    if change == "edit":
        (inner / "b").write_text("3")
    elif change == "rename":
        inner.rename(tmp_path / "other")
    elif change == "move":
        (inner / "b").rename(tmp_path / "b")
    else:
        (inner / "b").unlink()
    assert source_hash(tmp_path) != before


def test_without_sources_nothing_is_compared(tmp_path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_stale("0" * 64, tmp_path)


def test_the_modules_are_all_importable() -> None:
    for name in ("engine", "errors", "info", "executors.onnxruntime", "executors.tensorrt"):
        importlib.import_module(f"trt_runtime.{name}")
