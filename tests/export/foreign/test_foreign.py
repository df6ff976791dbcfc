"""Engines of torch-tensorrt, by a double of its class: with the accessors of its 2.14, and without."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from export.foreign.double import compile_double

CASES = Path(__file__).with_name("cases.py")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_double(tmp_path_factory.mktemp("double"))


@pytest.mark.parametrize("accessors", ["1", "0"], ids=["with accessors", "without accessors"])
def test_every_case(library: Path, accessors: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(CASES)],
        env={**os.environ, "FOREIGN_LIBRARY": str(library), "FOREIGN_ACCESSORS": accessors},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    summary = done.stdout.splitlines()[-1]
    assert "passed" in summary
    assert "skipped" not in summary
