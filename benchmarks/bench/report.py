"""The Markdown page of a comparison."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.goals import Goal
from bench.results import FLOORS, LOWERING, PHASES, TO_FILE, Results, Spread

TOGETHER = f"**{' + '.join(LOWERING)}**"
WHOLE = "**engine to file**"

_NOTES = """\
Each row is a phase of a process of its own per pair, engine and round; the rounds go over all pairs and engines in
turns, and each begins with another pair. A process first does everything twice with an engine of 64 kB, so that imports
and tables are not in the numbers, and reads the plan's file once, so that the disk is not. Engines of `N MB` are tables
that ONNX Runtime looks rows up in, `encoder` is the TensorRT-RTX engine of the demo's sentence encoder, `3 GB` opaque
bytes behind the header of one.

- Seconds: the median, and the least and the largest of the rounds; then the ratio of medians to the first pair.
- Extra MB: anonymous memory (RssAnon, MB of 2^20 bytes) beyond what was there when the phase began, its peak; of the
  rounds the median and the largest. It is read from outside of the process every 2 ms, and by the process itself before
  and after each phase; what is there for less than that may be missed. `engine to file` is the same from before the
  engine was made to the written file, whatever phase it is in.
- The record that an engine is made with has no digest of the plan, as when `trt_export.compile` makes it: the plan is
  hashed then, once. With a digest in the record it is hashed in `to_edge` instead.
- Counts: what rose in `trt_runtime.stats()`, in the round in which it rose most.
- `write_to_file` is ExecuTorch's own, to a new file, and `cp` a copy of the file it wrote, in the kernel (sendfile, no
  shared blocks), to another one; neither waits for the disk. `save` is `trt_export.save`: a temporary file, fsync,
  rename, fsync of the folder; `cp and fsync` is the copy by the same steps. Before each of the four what the one before
  wrote is on the disk. A process does all four in four turns, each time beginning with another,
  and the median of the turns is its result. The column `to cp` is the ratio of medians to the copy of the same kind.
"""


def page(
    results: Results,
    about: Mapping[str, Any],
    pairs: Sequence[str],
    engines: Sequence[str],
    goals: Sequence[Goal],
) -> str:
    """The whole page."""
    machine = ", ".join(f"{key} {value}" for key, value in about["machine"].items())
    lines = [
        "# What lowering an engine costs",
        "",
        f"By `nox -s bench` on {about['date']}, rounds: {about['rounds']}. {machine}.",
        "",
        *(f"- {pair}: {versions(results, pair, engines)}" for pair in pairs),
        "",
        "![time and memory against the size of the engine](results.svg)",
        "",
        "## Goals",
        "",
        f"Of {pairs[-1]}:",
        "",
        *(f"- {goal}" for goal in goals),
        "",
        "## Measured",
        "",
        _NOTES,
    ]
    for engine in engines:
        lines += [f"### {engine}", "", *table(results, pairs, engine), ""]
    failures = results.failures()
    if failures:
        lines += ["### Failed", ""]
        lines += [f"- {run.pair}, {run.engine}, round {run.round + 1}" for run in failures]
        lines += [""]
    return "\n".join(lines).rstrip() + "\n"


def versions(results: Results, pair: str, engines: Sequence[str]) -> str:
    """What was installed, as the first run says."""
    for engine in engines:
        for run in results.of(pair, engine):
            return ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return "no run"


def table(results: Results, pairs: Sequence[str], engine: str) -> Iterator[str]:
    """The lines of one engine's table."""
    yield "| phase | pair | seconds | to the first pair | to cp | extra MB | counts |"
    yield "|---|---|---|---|---|---|---|"
    rows: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in PHASES]
    rows.insert(PHASES.index(LOWERING[-1]) + 1, (TOGETHER, LOWERING))
    rows.append((WHOLE, TO_FILE))
    for title, phases in rows:
        shown = title
        for pair in pairs:
            row = _row(results, pairs[0], pair, engine, title, phases)
            if row is not None:
                yield f"| {' | '.join((shown, pair, *row))} |"
                shown = ""


def _row(
    results: Results, first: str, pair: str, engine: str, title: str, phases: tuple[str, ...]
) -> tuple[str, ...] | None:
    seconds = results.seconds(pair, engine, *phases)
    if seconds is None:
        return None
    memory = ""
    if title == WHOLE:
        memory = _megabytes(results.peak(pair, engine))
        phases_of_time: tuple[
            str, ...
        ] = ()  # both ways of writing are in it: no time that anyone waits
    else:
        memory = _megabytes(results.peak(pair, engine, phases[0])) if len(phases) == 1 else ""
        phases_of_time = phases
    to_first = results.ratio(pair, engine, phases, (first, engine, phases))
    floor = FLOORS.get(title)
    to_copy = results.ratio(pair, engine, phases, (pair, engine, [floor])) if floor else None
    counts = results.counts(pair, engine, *phases)
    return (
        _seconds(seconds) if phases_of_time else "",
        f"{to_first:.3g}" if to_first and phases_of_time and pair != first else "",
        f"{to_copy:.2f}" if to_copy else "",
        memory,
        ", ".join(f"{number} {key}" for key, number in counts.items()),
    )


def _seconds(spread: Spread) -> str:
    return f"{spread.middle:.4f} ({spread.low:.4f} to {spread.high:.4f})"


def _megabytes(spread: Spread | None) -> str:
    return f"{spread.middle:.1f} (at most {spread.high:.1f})" if spread else ""
