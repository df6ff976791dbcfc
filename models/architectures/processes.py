"""One process per model, with a time limit, and the progress of all of them."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .catalog import by_name
from .measure import measure
from .rows import row
from .spec import Model

_PROCESSES = multiprocessing.get_context("forkserver")
"""Forks each process from one that has imported everything (warming.py)."""


def measure_all(models: Sequence[Model], limit: float, jobs: int = 1) -> list[dict[str, Any]]:
    """Return one row per model, in their order; progress is shown on a terminal only."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    progress = Progress(*columns, console=console, disable=not console.is_terminal)
    with tempfile.TemporaryDirectory() as folder:
        _start_server(Path(folder))
        with progress, ThreadPoolExecutor(jobs) as pool:
            task = progress.add_task("", total=len(models))

            def one(number: int, model: Model) -> dict[str, Any]:
                progress.update(task, description=model.name)
                facts, said = measure_one(model, limit, Path(folder) / str(number))
                if console.is_terminal:
                    for step, error in facts["failed"].items():
                        console.print(f"{model.name}, {step}: {error}", markup=False)
                    console.print(said, markup=False, highlight=False, end="")
                progress.advance(task)
                return row(model, facts)

            return list(pool.map(one, range(len(models)), models))


def measure_one(model: Model, limit: float, folder: Path) -> tuple[dict[str, Any], str]:
    """Return a model's facts (measure.py), and the end of what its process printed if a step failed.

    A process that ends early or exceeds `limit` seconds fails the step that it was in. `folder` is made.
    """
    folder.mkdir()
    process = _PROCESSES.Process(target=_measure, args=(model.name, folder))
    process.start()
    process.join(limit)
    ended = f"not done after {limit:g} s" if process.is_alive() else ""
    assert process.pid is not None
    process.kill()
    with contextlib.suppress(ProcessLookupError):  # also ends the processes that build engines
        os.killpg(process.pid, signal.SIGKILL)
    process.join()
    file = folder / "facts.json"
    facts = json.loads(file.read_text()) if file.exists() else {}
    facts = {"failed": {}, "step": "start", **facts}
    if facts["step"] is not None:
        ended = ended or f"the process ended with exit code {process.exitcode}"
        facts["failed"][facts["step"]] = ended
    log = folder / "said"
    said = log.read_text(errors="replace") if facts["failed"] and log.exists() else ""
    return facts, said[-2000:]


def _start_server(folder: Path) -> None:
    """Start the process that the others are forked from; warnings of imports go to a file."""
    _PROCESSES.set_forkserver_preload([f"{__package__}.warming", __name__])
    kept = os.dup(2)
    try:
        with (folder / "imports").open("wb") as log:
            os.dup2(log.fileno(), 2)
            forkserver.ensure_running()
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _measure(name: str, folder: Path) -> None:
    os.setsid()
    torch.set_num_threads(1)  # its own results are the same then
    with (folder / "said").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    file, draft = folder / "facts.json", folder / "draft.json"

    def write(facts: dict[str, Any]) -> None:
        draft.write_text(json.dumps(facts))
        draft.replace(file)  # never half a file

    measure(by_name(name), write)
