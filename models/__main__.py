"""Take every model of the catalogue all the way and write docs/models.md: `nox -s models`.

    python -m models                      all of them; writes the page unless a row is worse than the committed one
    python -m models BERT "RT-DETR"       some of them; writes nothing
    python -m models --accept "RT-DETR"   writes these rows in any case
    python -m models --tests --together   those of the tests, in one process

Exit code 1: a row is worse than the committed one, or is new and fails; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .catalog import MODELS
from .spec import Model
from .table import page, read, row, worse, write

_LIMIT = 600  # several times what the slowest model takes


def main() -> int:
    """See the module's docstring."""
    parser = argparse.ArgumentParser(
        prog="python -m models",
        description="Take every model of the catalogue all the way.",
        epilog='example: python -m models BERT "RT-DETR"',
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to measure (default: all)")
    parser.add_argument("--tests", action="store_true", help="the rows that the tests measure")
    parser.add_argument(
        "--together", action="store_true", help="all in one process, which is faster"
    )
    parser.add_argument(
        "--accept", action="store_true", help="write the rows though they are worse"
    )
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument(
        "--limit", type=int, default=_LIMIT, metavar="SECONDS", help="time limit of a process"
    )
    arguments = parser.parse_args()
    chosen = _choose(parser, arguments.names, tests=arguments.tests)
    groups = [chosen] if arguments.together else [[model] for model in chosen]
    rows = measure_all(groups, arguments.limit)
    committed = read()
    problems = [problem for found in rows for problem in worse(committed.get(found["name"]), found)]
    print(json.dumps(rows, indent=1) if arguments.json else page(rows))
    for problem in problems:
        print(problem, file=sys.stderr)
    if arguments.accept or (not problems and len(chosen) == len(MODELS)):
        committed.update({found["name"]: found for found in rows})
        write([committed[model.name] for model in MODELS if model.name in committed])
    return 1 if problems else 0


def _choose(parser: argparse.ArgumentParser, names: Sequence[str], *, tests: bool) -> list[Model]:
    known = {model.name: model for model in MODELS}
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"expected names of models, found {unknown}; there are {', '.join(known)}")
    if names:
        return [known[name] for name in names]
    return [model for model in MODELS if model.in_tests or not tests]


def measure_all(groups: Sequence[Sequence[Model]], limit: int) -> list[dict[str, Any]]:
    """Measure one group after the other, each in a process of its own; progress is shown on a terminal only."""
    rows: list[dict[str, Any]] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=sum(map(len, groups)))
        for models in groups:
            progress.update(task, description=models[0].name)
            rows += map(row, _measure_group(models, limit))
            progress.advance(task, len(models))
    return rows


def _measure_group(models: Sequence[Model], limit: int) -> list[dict[str, Any]]:
    """Return the facts of each model; a process that dies or takes too long is a fact of those without others."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "facts.json"
        names = [model.name for model in models]
        command = [sys.executable, "-m", f"{__package__}.measure", *names, "--out", str(out)]
        ended = said = ""
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, timeout=limit
            )
        except subprocess.TimeoutExpired as error:
            ended = f"not done after {limit} s"
            said = (error.stderr or b"").decode(errors="replace")
        else:
            said = done.stderr
            if done.returncode:
                ended = f"the process ended with exit code {done.returncode}"
        found = (
            {facts["name"]: facts for facts in json.loads(out.read_text())} if out.exists() else {}
        )
    for model in models:
        facts = found.setdefault(
            model.name, {"name": model.name, "family": model.family, "step": "start"}
        )
        if ended and facts["step"] is not None:
            facts.setdefault("failed", ended)
        if "failed" in facts:
            print(f"{model.name}, {facts['step']}: {facts['failed']}", file=sys.stderr)
            print(said[-2000:], file=sys.stderr)
    return [found[model.name] for model in models]


if __name__ == "__main__":
    sys.exit(main())
