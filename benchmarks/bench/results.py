"""What the measured processes found: one `Run` each, kept as JSON, and medians over them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.sampling import Samples

LOWERING = ("to_edge", "to_executorch")
# From the engine to the file; `cp` is not ours, and running the program is another matter.
TO_FILE = (
    *("make the engine", "torch.export", "run_decompositions", *LOWERING),
    *("write_to_file", "save"),
)
LOAD = "load and run"
# What each way of writing is compared with: the same bytes copied in the same way.
FLOORS = {"write_to_file": "cp", "save": "cp and fsync"}
PHASES = (*TO_FILE[:5], "write_to_file", "cp", "save", "cp and fsync", LOAD)
_KB_PER_MB = 1024


@dataclass(frozen=True)
class Phase:
    """One phase of one process. ``peak_mb`` is anonymous memory beyond what was there when it began.

    Of a phase that was done several times these are the median of the seconds and the most of everything else.
    """

    seconds: float
    peak_mb: float
    samples: int
    counts: dict[str, int]


@dataclass(frozen=True)
class Run:
    """One process: a pair, an engine and a round.

    ``peak_mb`` is the most anonymous memory beyond what was there before the engine was made, up to the written file,
    ``highest_mb`` all anonymous memory of the process then. ``error`` says why there is nothing.
    """

    pair: str
    engine: str
    round: int
    pte_bytes: int
    peak_mb: float
    highest_mb: float
    versions: dict[str, str]
    phases: dict[str, Phase]
    error: str | None = None

    @classmethod
    def failed(cls, pair: str, engine: str, turn: int, error: str) -> Run:
        """A process that found nothing."""
        return cls(pair, engine, turn, 0, 0, 0, {}, {}, error)

    @classmethod
    def read(cls, path: Path) -> Run:
        """What `write` wrote."""
        fields: dict[str, Any] = json.loads(path.read_text())
        fields["phases"] = {name: Phase(**phase) for name, phase in fields["phases"].items()}
        return cls(**fields)

    def write(self, path: Path) -> None:
        """Keep it as JSON."""
        path.write_text(json.dumps(asdict(self), indent=1))


def run_of(pair: str, engine: str, turn: int, said: dict[str, Any], samples: Samples) -> Run:
    """Join what a process said of its phases with the memory that was seen from outside."""
    phases: dict[str, Phase] = {}
    said_phases: dict[str, list[dict[str, Any]]] = said["phases"]
    highest = 0
    for name, times in said_phases.items():
        seen = [samples.between(one["start"], one["end"]) for one in times]
        tops = [
            max((*some, one["before_kb"], one["after_kb"]))
            for some, one in zip(seen, times, strict=True)
        ]
        extra = [top - one["before_kb"] for top, one in zip(tops, times, strict=True)]
        phases[name] = Phase(
            statistics.median(one["end"] - one["start"] for one in times),
            max(extra) / _KB_PER_MB,
            sum(map(len, seen)),
            {key: max(one["counts"].get(key, 0) for one in times) for key in _keys(times)},
        )
        if name in TO_FILE:
            highest = max(highest, *tops)
    before = said_phases[TO_FILE[0]][0]["before_kb"]
    return Run(
        pair,
        engine,
        turn,
        said["pte_bytes"],
        (highest - before) / _KB_PER_MB,
        highest / _KB_PER_MB,
        said["versions"],
        phases,
    )


def _keys(times: Sequence[dict[str, Any]]) -> list[str]:
    return sorted({key for one in times for key in one["counts"]})


@dataclass(frozen=True)
class Spread:
    """Median, least and largest of some values."""

    middle: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Of at least one value."""
        return cls(statistics.median(values), min(values), max(values))


class Results:
    """All runs of one go."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = tuple(runs)

    @classmethod
    def read(cls, folder: Path) -> Results:
        """The runs that are kept in a folder."""
        return cls(Run.read(path) for path in sorted(folder.glob("run-*.json")))

    def of(self, pair: str, engine: str) -> tuple[Run, ...]:
        """The runs of one pair with one engine that came to an end."""
        return tuple(
            run
            for run in self.runs
            if run.pair == pair and run.engine == engine and run.error is None
        )

    def failures(self) -> tuple[Run, ...]:
        """The runs that did not."""
        return tuple(run for run in self.runs if run.error is not None)

    def seconds(self, pair: str, engine: str, *phases: str) -> Spread | None:
        """The time of phases together; None if there is none."""
        found = [
            sum(run.phases[phase].seconds for phase in phases)
            for run in self.of(pair, engine)
            if all(phase in run.phases for phase in phases)
        ]
        return Spread.of(found) if found else None

    def peak(self, pair: str, engine: str, phase: str | None = None) -> Spread | None:
        """Extra anonymous MB of a phase, or from the engine to the file."""
        found = [
            run.peak_mb if phase is None else run.phases[phase].peak_mb
            for run in self.of(pair, engine)
            if phase is None or phase in run.phases
        ]
        return Spread.of(found) if found else None

    def counts(self, pair: str, engine: str, *phases: str) -> dict[str, int]:
        """By how much each counter rose in phases together, in the run where it rose most."""
        most: dict[str, int] = {}
        for run in self.of(pair, engine):
            total: dict[str, int] = {}
            for phase in phases:
                for key, number in run.phases[phase].counts.items() if phase in run.phases else ():
                    total[key] = total.get(key, 0) + number
            for key, number in total.items():
                most[key] = max(number, most.get(key, 0))
        return most

    def ratio(
        self, pair: str, engine: str, phases: Sequence[str], to: tuple[str, str, Sequence[str]]
    ) -> float | None:
        """The ratio of two medians; ``to`` is the pair, engine and phases to compare with."""
        mine, other = self.seconds(pair, engine, *phases), self.seconds(to[0], to[1], *to[2])
        return mine.middle / other.middle if mine and other else None
