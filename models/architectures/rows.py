"""The rows of docs/models.json: what they keep of a model's facts, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .spec import Model

Row = Mapping[str, Any]
Built = Mapping[str, Any]
"""What a builder made of a program: `engines`, `left`, and `refused` if it made nothing."""


def row(model: Model, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the table keeps of a model's facts (measure.py).

    `works` names the steps that worked, `failed` those that did not, with the error. `error` is the larger one of
    running in PyTorch and in ExecuTorch, `plan` the size of the plans divided by that of the weights, `seconds` the
    time of `compile` with `onnxruntime`.
    """
    errors = [facts[key] for key in ("error in PyTorch", "error in ExecuTorch") if key in facts]
    seconds, weights, rtx = (
        facts.get(key) for key in ("seconds", "weights", "built with tensorrt-rtx")
    )
    return {
        "name": model.name,
        "family": model.family,
        "works": list(seconds or {}),
        "failed": facts["failed"],
        "engines": facts.get("engines"),
        "left": facts.get("left", []),
        "verified": facts.get("verified"),
        "error": float(f"{max(errors):.1e}") if errors else None,
        "tolerance": model.tolerance,
        "tensorrt-rtx": rtx
        and {key: rtx[key] for key in ("engines", "left", "refused") if key in rtx},
        "plan": round(facts["plans"] / weights, 2) if weights and "plans" in facts else None,
        "seconds": round(seconds["compile"], 1) if seconds and "compile" in seconds else None,
    }


def outside(built: Built) -> int:
    """Return how many nodes stay in PyTorch."""
    count: int = sum(node["count"] for node in built["left"])
    return count


def is_whole(built: Built | None) -> bool:
    """Whether a builder made one engine of everything."""
    return built is not None and built["engines"] == 1 and not built["left"]


def is_right(found: Row) -> bool:
    """Whether the model runs in PyTorch and as a `.pte`, with the numbers of eager PyTorch."""
    runs = {"run in PyTorch", "run in ExecuTorch"} <= set(found["works"])
    return runs and found["error"] <= found["tolerance"]


def in_words(built: Built) -> str:
    """Return what a builder made, as in "2 engines, 3 nodes outside"."""
    if "refused" in built:
        return "refused"
    if not built["engines"]:
        return "no engine"
    engines = f"{built['engines']} engine" + ("s" if built["engines"] > 1 else "")
    nodes = outside(built)
    return f"{engines}, {nodes} node{'s' if nodes > 1 else ''} outside" if nodes else engines
