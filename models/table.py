"""The table of docs/models.md: what a row says, and when it is worse than the committed one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .catalog import by_name

_DOCS = Path(__file__).parents[1] / "docs"
_PAGE = _DOCS / "models.md"
_DATA = _DOCS / "models.json"

_HEAD = """\
# Models

Each model here is made from a small configuration with random weights, exported (with a dynamic batch and length where
that is natural), compiled with `onnxruntime`, compared with eager PyTorch at three sizes (the exported one and both
bounds), in PyTorch and as a `.pte`, and built with `tensorrt-rtx`, whose engines are not run: that needs a GPU.
`nox -s models` writes this page, and fails if a row becomes worse.

- *engines*: the number of engines, and of the nodes that stay in PyTorch; one engine and no node is best.
- *error*: the largest difference from eager PyTorch, relative to the largest number of the output.
- *plan*: the size of the plans divided by that of the weights. Models this small are mostly graph.
- *seconds*: the time of `compile` with `onnxruntime`, on the machine that wrote the page.

"""


def row(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the table keeps of a model's facts (measure.py); only the seconds differ from run to run."""
    found: dict[str, Any] = {"name": facts["name"], "family": facts["family"]}
    if "failed" in facts:
        found["failed"] = {"step": facts["step"], "error": facts["failed"]}
    errors = [facts[key] for key in ("error in PyTorch", "error in ExecuTorch") if key in facts]
    rtx = facts.get("built with tensorrt-rtx")
    return found | {
        "engines": facts.get("engines"),
        "left": facts.get("left", []),
        "error": max(errors) if errors else None,
        "rtx": None
        if rtx is None
        else {key: rtx[key] for key in ("engines", "left", "refused") if key in rtx},
        "verified": facts.get("verified"),
        "plan": round(facts["plans"] / facts["weights"], 2)
        if "plans" in facts and facts["weights"]
        else None,
        "seconds": facts.get("seconds", {}).get("compile"),
    }


def read() -> dict[str, dict[str, Any]]:
    """Return the committed rows by name; none where the file is not there yet."""
    if not _DATA.exists():
        return {}
    return {found["name"]: found for found in json.loads(_DATA.read_text())}


def write(rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the page and its data."""
    _PAGE.write_text(page(rows))
    _DATA.write_text(json.dumps(rows, indent=1) + "\n")


def worse(before: Mapping[str, Any] | None, now: Mapping[str, Any]) -> list[str]:
    """Say what is worse than in the committed row, or wrong by itself; seconds are not compared."""
    name = now["name"]
    problems = []
    if "failed" in now and (before is None or "failed" not in before):
        problems.append(f"{name}: {now['failed']['step']}: {now['failed']['error']}")
    bound = by_name(name).tolerance
    if now["error"] is not None and not now["error"] <= bound:
        problems.append(f"{name}: expected an error of at most {bound:g}, found {now['error']:g}")
    if before is None:
        return problems
    if before["verified"] and not now["verified"]:
        problems.append(f"{name}: expected verified engines, found some that are not")
    for what, old, new in (
        ("", before, now),
        (" with tensorrt-rtx", before["rtx"] or {}, now["rtx"] or {}),
    ):
        if _badness(new) > _badness(old):
            problems.append(f"{name}{what}: expected {_result(old)}, found {_result(new)}")
    return problems


def _badness(found: Mapping[str, Any]) -> tuple[bool, int, int]:
    """No engine is worst, then many of them, then many nodes outside."""
    engines = found.get("engines") or 0
    return engines == 0, engines, sum(node["count"] for node in found.get("left", []))


def _result(found: Mapping[str, Any]) -> str:
    if "refused" in found:
        return f"refused: {found['refused']}"
    if not found.get("engines"):
        return "none"
    left = sum(node["count"] for node in found["left"])
    engines = f"{found['engines']} engine" + ("s" if found["engines"] > 1 else "")
    return f"{engines}, {left} nodes outside" if left else engines


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page: a table per family, then what stays in PyTorch and why."""
    whole = sum(found.get("engines") == 1 and not found["left"] for found in rows)
    parts = [_HEAD, f"{whole} of {len(rows)} are one engine with nothing outside.\n"]
    for family in dict.fromkeys(found["family"] for found in rows):
        parts.append(
            f"\n## {family}\n\n| model | engines | error | plan | seconds | tensorrt-rtx |\n|---|---|---|---|---|---|\n"
        )
        members = [found for found in rows if found["family"] == family]
        parts += map(_line, members)
        parts += [_reasons(found) for found in members]
    return "".join(parts)


def _line(found: Mapping[str, Any]) -> str:
    failed = found.get("failed")
    result = f"fails in {failed['step']}" if failed and not found.get("engines") else _result(found)
    error = "-" if found["error"] is None else f"{found['error']:.0e}"
    plan = "-" if found["plan"] is None else f"{found['plan']:.1f}"
    seconds = "-" if found["seconds"] is None else f"{found['seconds']:.0f}"
    rtx = "-" if found["rtx"] is None else _result(found["rtx"])
    cells = (found["name"], result, error, plan, seconds, rtx)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def _reasons(found: Mapping[str, Any]) -> str:
    lines = []
    if "failed" in found:
        lines.append(
            f"\n{found['name']} fails in the step `{found['failed']['step']}`: {found['failed']['error']}\n"
        )
    for builder, left in (
        ("", found["left"]),
        (" (tensorrt-rtx)", (found["rtx"] or {}).get("left", [])),
    ):
        if left:
            lines.append(f"\n{found['name']}{builder} keeps in PyTorch:\n\n")
            lines += [
                f"- {node['count']} x `{node['operator']}`: {node['reason']}\n" for node in left
            ]
    return "".join(lines)
