"""Rows as docs/models.json has them, for tests of the table."""

from __future__ import annotations

from typing import Any

STEPS = (
    "make",
    "export",
    "compile",
    "run eagerly",
    "run in PyTorch",
    "tensorrt-rtx",
    "to .pte",
    "run in ExecuTorch",
)


def left(count: int = 1, operator: str = "aten.sort.default") -> dict[str, Any]:
    return {"operator": operator, "reason": "nobody builds it", "count": count}


def good(**changes: Any) -> dict[str, Any]:
    """Return a row of one engine without anything to complain about, but for `changes`."""
    return {
        "name": "Net",
        "family": "text encoder",
        "works": list(STEPS),
        "failed": {},
        "engines": 1,
        "left": [],
        "verified": True,
        "error": 2e-7,
        "tolerance": 1e-4,
        "tensorrt-rtx": {"engines": 1, "left": []},
        "plan": 1.1,
        "seconds": 3.0,
        **changes,
    }


def failing(step: str, error: str = "ValueError: no", **changes: Any) -> dict[str, Any]:
    """Return a row of which a step, and so all after it, does not work."""
    works = STEPS[: STEPS.index(step)]
    found = good(works=list(works), failed={step: error}, **changes)
    if "compile" not in works:
        found |= {"engines": None, "verified": None}
    if "run in PyTorch" not in works:
        found["error"] = None
    if "tensorrt-rtx" not in works:
        found["tensorrt-rtx"] = None
    return found | changes
