"""Run the scenarios in every cell of the matrix, or in one, and write what they found.

    python compat/run.py --torch torch==2.13.0 [--runtime VERSION] [--export VERSION]

Makes one environment per pair, has it lower the programs (compat/scenarios), then has every runtime load what every
other saved. The facts go to .cache/compat/results.json; compat/matrix.py judges them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from environments import CACHE, ROOT, EnvironmentFailedError, Half, Installer, halves

SCENARIOS = Path(__file__).parent / "scenarios"
RESULTS = CACHE / "results.json"
# The environment that builds the plans; its bytecode serves all others.
PLANS_ENVIRONMENT = CACHE / "environments" / "plans"
TENSORRT_RTX = "tensorrt-rtx>=1.7.1,<1.8"
WORKERS = 2

Facts = dict[str, Any]


def main() -> int:
    """Run what the command line asks for; 1 if a cell could not even be set up, 2 for an unknown version."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="exact requirement, such as torch==2.13.0")
    parser.add_argument("--runtime", help="only this runtime: a released version, or dev")
    parser.add_argument("--export", help="only this exporter: a released version, or dev")
    arguments = parser.parse_args()
    runtimes = halves("trt-runtime")
    exports = halves("trt-export")
    cells = [
        (runtime, export)
        for runtime in _only(parser, runtimes, arguments.runtime)
        for export in _only(parser, exports, arguments.export)
    ]
    installer = Installer(arguments.torch)
    plans = make_plans(installer, runtimes[-1], exports[-1])
    programs = CACHE / "programs"
    shutil.rmtree(programs, ignore_errors=True)
    for half in {half for cell in cells for half in cell}:
        installer.wheel(half)
    with ThreadPoolExecutor(WORKERS) as pool:
        lowered = list(pool.map(lambda cell: lower(installer, plans, programs, *cell), cells))
        loaders = {runtime.version: (runtime, export) for runtime, export in cells}
        loaded = list(pool.map(lambda cell: load(plans, programs, *cell), loaders.values()))
    RESULTS.write_text(json.dumps({"cells": lowered, "loads": loaded}, indent=1))
    print(f"{len(cells)} cells: {RESULTS.relative_to(ROOT)}")
    return 0


def _only(parser: argparse.ArgumentParser, all_of: list[Half], version: str | None) -> list[Half]:
    found = [half for half in all_of if version in (None, half.version)]
    if not found:
        known = ", ".join(half.version for half in all_of)
        parser.error(f"{all_of[0].package}: expected one of {known}, found {version}")
    return found


def make_plans(installer: Installer, runtime: Half, export: Half) -> Path:
    """Build the plans that all cells share, once per state of the working trees and scenarios."""
    digest = hashlib.sha256(f"{runtime.digest}{export.digest}".encode())
    for path in sorted(SCENARIOS.glob("*.py")):
        digest.update(path.read_bytes())
    folder = CACHE / "plans" / digest.hexdigest()[:16]
    if not folder.exists():
        draft = folder.with_suffix(".part")
        shutil.rmtree(draft, ignore_errors=True)
        wheels = [str(installer.wheel(half)) for half in (runtime, export)]
        python = installer.environment(PLANS_ENVIRONMENT, *wheels, TENSORRT_RTX)
        _run([python, SCENARIOS / "make_plans.py", draft])
        draft.rename(folder)
    return folder


def lower(installer: Installer, plans: Path, programs: Path, runtime: Half, export: Half) -> Facts:
    """Set up one cell and have it lower every program."""
    wheels = [str(installer.wheel(half)) for half in (runtime, export)]
    try:
        python = installer.environment(
            _environment(runtime.version, export.version), *wheels, bytecode=PLANS_ENVIRONMENT
        )
    except EnvironmentFailedError as error:
        return {"cell": [runtime.version, export.version], "refused": str(error)}
    saved = programs / runtime.version / export.version
    return lower_in(python, plans, saved, runtime.version, export.version)


def lower_in(python: Path, plans: Path, saved: Path, runtime: str, export: str) -> Facts:
    """Have an environment that is there lower every program; ``saved`` gets the programs."""
    return _scenarios(python, "lower", plans, saved, runtime, export)


def load(plans: Path, programs: Path, runtime: Half, export: Half) -> Facts:
    """Have one runtime load what all runtimes saved; the cell's environment is there already."""
    python = _environment(runtime.version, export.version) / "bin" / "python"
    return _scenarios(python, "load", plans, programs, runtime.version, export.version)


def _scenarios(
    python: Path, what: str, plans: Path, programs: Path, runtime: str, export: str
) -> Facts:
    out = CACHE / "facts" / f"{what}-{runtime}-{export}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.unlink(missing_ok=True)
    start = time.perf_counter()
    said = _run(
        [python, SCENARIOS, what, "--plans", plans, "--programs", programs, "--out", out],
        check=False,
    )
    seconds = time.perf_counter() - start
    print(f"{what} runtime {runtime}, export {export}: {seconds:.0f} s", file=sys.stderr)
    facts = json.loads(out.read_text()) if out.exists() else {"crashed": said}
    return {"cell": [runtime, export], **facts}


def _environment(runtime: str, export: str) -> Path:
    return CACHE / "environments" / f"{runtime}-{export}"


def _run(command: list[str | Path], *, check: bool = True) -> str:
    """Run a command without this process's Python settings and return the end of what it said."""
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        list(map(str, command)), env=variables, capture_output=True, text=True, check=False
    )
    said = (done.stdout + done.stderr)[-4000:]
    if done.returncode and check:
        raise RuntimeError(f"{command[0]} {command[1]} ended with {done.returncode}:\n{said}")
    return said


if __name__ == "__main__":
    sys.exit(main())
