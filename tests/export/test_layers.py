"""Who imports whom: the floors of the exporter, and what is not imported before it is needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest

import trt_export

ROOT = Path(trt_export.__file__).parent
# Floor by floor, from the ground up; a module imports its own floor's package and lower floors only.
FLOORS = (
    ("errors", "interrupts", "json_text", "streams"),
    (
        *(
            "arguments",
            "formats",
            "hints",
            "initial_state",
            "one_at_a_time",
            "phases",
            "plan",
            "symbols",
        ),
        "upstream_errors",
    ),
    ("files", "engines", "builders"),
    ("passes", "compiling"),
    ("delegate",),
    ("edge", "inspecting", "report_lines"),
    ("building", "doctor"),
    ("describing", "progress"),
    ("console",),
    ("cli",),
    ("__main__",),
)
HEIGHT = {name: height for height, floor in enumerate(FLOORS) for name in floor}


def imports(path: Path) -> Iterator[str]:
    """All modules that a file imports, at its top or in its functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


FILES = sorted(path for path in ROOT.rglob("*.py") if path != ROOT / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    for name in imports(path):
        package, _, rest = name.partition(".")
        target = rest.split(".")[0]
        if package == "trt_export" and target and target != part:
            assert HEIGHT[target] < HEIGHT[part], f"{part} imports {target}"
        if package == "trt_runtime":
            assert not rest.split(".")[0].startswith("_")
        if package in ("tensorrt", "tensorrt_rtx"):
            assert part == "builders"
        if package == "executorch":
            assert part in ("delegate", "edge")


def test_the_public_face_is_light() -> None:
    script = """
import sys, trt_export
assert not {"torch", "executorch", "onnx", "numpy"} & set(sys.modules), "imported too early"
from trt_export import FallbackWarning, TrtExportError, info
assert not {"torch", "executorch", "onnx", "numpy"} & set(sys.modules), "imported too early"
assert {"compile", "to_edge", "save", "info", "probe", "EngineCapabilities"} <= set(dir(trt_export))
assert callable(trt_export.save) and callable(trt_export.to_edge) and callable(trt_export.compile)
try:
    trt_export.nothing
except AttributeError:
    pass
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, capture_output=True)


def test_all_errors_have_one_base() -> None:
    from trt_export import errors

    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert len(classes) > 10
    assert all(
        issubclass(cls, trt_export.TrtExportError)
        for cls in classes
        if not issubclass(cls, Warning)
    )


def test_the_version_is_that_of_the_package() -> None:
    pyproject = ROOT.parents[1] / "pyproject.toml"
    if not pyproject.exists():  # an installed wheel: its metadata was made of that file
        assert trt_export.__version__ == version("trt-export")
        return
    assert f'\nversion = "{trt_export.__version__}"\n' in pyproject.read_text()
