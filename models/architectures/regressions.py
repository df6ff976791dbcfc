"""When a row is worse than the committed one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .rows import Built, Row, in_words, outside

_MARGIN = 5.0
"""How many times the committed error is still rounding: threads, CPUs and releases round differently."""


def worse(before: Row | None, now: Row) -> list[str]:
    """Say what is worse than in the committed row, or what fails in a row that is new; each text names the row.

    Worse are: a step that worked and does not; more engines or more nodes outside; none where there was an engine;
    engines that are not verified any more; an error above the tolerance, or far above the committed one. Seconds and
    sizes are not compared.
    """
    if before is None:
        problems = [f"`{step}` to work, found: {error}" for step, error in now["failed"].items()]
    else:
        problems = [*_steps(before, now), *_engines(before, now)]
        if before["verified"] and now["verified"] is False:
            problems.append("verified engines, found some that are not")
    allowed = _allowed(before, now["tolerance"])
    if now["error"] is not None and not now["error"] <= allowed:
        problems.append(f"an error of at most {allowed:.1e}, found {now['error']:.1e}")
    return [f"{now['name']}: expected {problem}" for problem in problems]


def missing(committed: Mapping[str, Row], names: Iterable[str]) -> list[str]:
    """Name the committed rows that have no model any more."""
    gone = committed.keys() - set(names)
    return [
        f"{name}: expected a model of this name, found none; put it back, or drop the row with --accept"
        for name in committed
        if name in gone
    ]


def _steps(before: Row, now: Row) -> list[str]:
    lost = [step for step in before["works"] if step not in now["works"]]
    because = "; ".join(f"`{step}`: {error}" for step, error in now["failed"].items())
    # Only the first: the steps after it need its result.
    return [f"`{step}` to work, found: {because}" for step in lost[:1]]


def _engines(before: Row, now: Row) -> list[str]:
    pairs = (("", before, now), ("tensorrt-rtx: ", before["tensorrt-rtx"], now["tensorrt-rtx"]))
    return [
        f"{builder}{in_words(old)}, found {in_words(new)}{_reason(new)}"
        for builder, old, new in pairs
        # A builder's step that was not reached or failed is the subject of `_steps`.
        if old and new and None not in (old["engines"], new["engines"]) and _is_worse(old, new)
    ]


def _is_worse(before: Built, now: Built) -> bool:
    if not before["engines"]:
        return not now["engines"] and outside(now) > outside(before)
    return (
        not now["engines"] or now["engines"] > before["engines"] or outside(now) > outside(before)
    )


def _reason(built: Built) -> str:
    if "refused" in built:
        return f": {built['refused']}"
    reasons = [f"{node['operator']}: {node['reason']}" for node in built["left"]]
    return f" ({'; '.join(reasons[:3])}{'; ...' if len(reasons) > 3 else ''})" if reasons else ""


def _allowed(before: Row | None, tolerance: float) -> float:
    """Return the largest error that is not worse.

    A row that is right has to stay right, and near its error unless that is tiny; a row that is wrong already may not
    become much worse.
    """
    error = before["error"] if before else None
    if error is None:
        return tolerance
    near: float = max(_MARGIN * error, tolerance / 10)
    return near if error > tolerance else min(near, tolerance)
