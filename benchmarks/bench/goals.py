"""What the newest pair is to reach. Counts and bytes decide; times depend on the machine and are only told."""

from __future__ import annotations

from dataclasses import dataclass

from bench.results import FLOORS, LOAD, LOWERING, TO_FILE, Results

PLAN_WORK = ("serializations", "base64_encodes", "base64_decodes", "plan_copies")
EXTRA_MB = 16
HIGHEST_MB = 2048
SIZE_RATIO = 1.15
WRITE_RATIO = 1.25


@dataclass(frozen=True)
class Goal:
    """One goal, what was found, and whether missing it is an error."""

    text: str
    found: str
    met: bool
    counted: bool

    def __str__(self) -> str:
        state = "met" if self.met else "NOT MET"
        return f"{state}{'' if self.counted else ' (not counted)'}: {self.text}: {self.found}"


def judge(
    results: Results, pair: str, *, small: str, large: str, huge: str | None, engines: list[str]
) -> list[Goal]:
    """All goals for ``pair``.

    Args:
        results: of all runs.
        pair: the name of the newest pair.
        small: the name of the smallest table.
        large: the name of the largest one.
        huge: the name of the engine that is larger than memory should ever be; None if it was left out.
        engines: the names of all engines that were measured.
    """
    goals = [
        _counts(results, pair, name, TO_FILE, f"{name}, from engine to file") for name in engines
    ]
    goals.append(_size(results, pair, small, large))
    goals += [
        _extra(results, pair, name, None, f"{name}, from engine to file")
        for name in (large, huge)
        if name
    ]
    if huge:
        highest = max((run.highest_mb for run in results.of(pair, huge)), default=None)
        goals.append(
            Goal(
                f"{huge}, all anonymous memory of the process below {HIGHEST_MB} MB",
                _number(highest, "MB"),
                highest is not None and highest < HIGHEST_MB,
                True,
            )
        )
    goals += [
        _write(results, pair, name, phase) for name in (large, huge) if name for phase in FLOORS
    ]
    goals.append(_counts(results, pair, large, (LOAD,), f"{large}, {LOAD}", ("plan_copies",)))
    goals.append(_extra(results, pair, large, LOAD, f"{large}, {LOAD}"))
    return goals


def _write(results: Results, pair: str, engine: str, phase: str) -> Goal:
    floor = FLOORS[phase]
    ratio = results.ratio(pair, engine, [phase], (pair, engine, [floor]))
    return Goal(
        f"{engine}, {phase} at most {WRITE_RATIO} x {floor}",
        _number(ratio, "x"),
        ratio is not None and ratio <= WRITE_RATIO,
        False,
    )


def _counts(
    results: Results,
    pair: str,
    engine: str,
    phases: tuple[str, ...],
    where: str,
    keys: tuple[str, ...] = PLAN_WORK,
) -> Goal:
    counts = results.counts(pair, engine, *phases)
    there = results.peak(pair, engine, phases[-1]) is not None
    found = ", ".join(f"{counts.get(key, 0)} {key}" for key in keys) if there else "not measured"
    return Goal(
        f"{where}, no plan encoded or copied", found, there and not any(map(counts.get, keys)), True
    )


def _size(results: Results, pair: str, small: str, large: str) -> Goal:
    ratio = results.ratio(pair, large, LOWERING, (pair, small, LOWERING))
    return Goal(
        f"{' and '.join(LOWERING)} of {large} at most {SIZE_RATIO} x those of {small}",
        _number(ratio, "x"),
        ratio is not None and ratio <= SIZE_RATIO,
        False,
    )


def _extra(results: Results, pair: str, engine: str, phase: str | None, where: str) -> Goal:
    peak = results.peak(pair, engine, phase)
    return Goal(
        f"{where}: at most {EXTRA_MB} MB of anonymous memory more, in every run",
        _number(peak.high if peak else None, "MB"),
        peak is not None and peak.high <= EXTRA_MB,
        True,
    )


def _number(value: float | None, unit: str) -> str:
    return "not measured" if value is None else f"{value:.2f} {unit}"
