"""Reads and writes docs/models.json and docs/models.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .rows import Row, in_words, is_right, is_whole

DOCS = Path(__file__).parents[2] / "docs"

_HEAD = """\
# Models

Made by `nox -s models`, which fails if a row becomes worse; [models.json](models.json) has the facts.

Each model is made from a small configuration with random weights, exported (with a dynamic batch and length where that
is natural) and compiled with `onnxruntime`. Its outputs are compared with eager PyTorch at three sizes, the exported
one and both bounds, once in PyTorch and once from a `.pte`. It is also built with `tensorrt-rtx`; those engines need a
GPU and are not run.

- *engines*: the number of engines, and of the nodes that stay in PyTorch. One engine and no node is best.
- *error*: the largest difference from eager PyTorch, relative to the largest number of the output; *wrong* if rounding
  does not explain it.
- *plan*: the size of the plans divided by that of the weights. Most of a plan this small is graph, not weights.
- *seconds*: the time of `compile` with `onnxruntime` on the machine that wrote the page.

"""

_COLUMNS = (
    "| model | engines | error | plan | seconds | tensorrt-rtx |\n|---|---|---|---|---|---|\n"
)


def read(folder: Path = DOCS) -> dict[str, dict[str, Any]]:
    """Return the committed rows by name; none if there is no file yet."""
    file = folder / "models.json"
    if not file.exists():
        return {}
    return {found["name"]: found for found in json.loads(file.read_text())}


def write(rows: Sequence[Row], folder: Path = DOCS) -> None:
    """Write the page and its data."""
    (folder / "models.json").write_text(json.dumps(rows, indent=1) + "\n")
    (folder / "models.md").write_text(page(rows))


def page(rows: Sequence[Row]) -> str:
    """Return the page: a table per family, with what stays in PyTorch and what fails, and why."""
    whole = sum(is_whole(found) for found in rows)
    right = sum(is_whole(found) and is_right(found) for found in rows)
    rtx = sum(is_whole(found["tensorrt-rtx"]) for found in rows)
    parts = [
        _HEAD,
        f"Of {len(rows)} models, {whole} are one engine with nothing outside, {right} of these with the numbers of "
        f"eager PyTorch in both ways of running; `tensorrt-rtx` builds one engine of {rtx}.\n",
    ]
    for family in dict.fromkeys(found["family"] for found in rows):
        members = [found for found in rows if found["family"] == family]
        parts += [f"\n## {family[0].upper()}{family[1:]}\n\n", _COLUMNS, *map(_line, members)]
        parts += map(_reasons, members)
    return "".join(parts)


def _line(found: Row) -> str:
    rtx = found["tensorrt-rtx"]
    cells = (
        found["name"],
        "fails" if found["engines"] is None else in_words(found),
        _error(found),
        "-" if found["plan"] is None else f"{found['plan']:.1f}",
        "-" if found["seconds"] is None else f"{found['seconds']:.0f}",
        in_words(rtx) if rtx else "fails" if "tensorrt-rtx" in found["failed"] else "-",
    )
    return "| " + " | ".join(map(_cell, cells)) + " |\n"


def _error(found: Row) -> str:
    error = "-" if found["error"] is None else f"{found['error']:.0e}"
    if found["error"] is not None and found["error"] > found["tolerance"]:
        error = f"wrong: {error}"
    fails = [
        step
        for step in ("run in PyTorch", "to .pte", "run in ExecuTorch")
        if step in found["failed"]
    ]
    return ", ".join([error, *(f"`{step}` fails" for step in fails)])


def _reasons(found: Row) -> str:
    rtx = found["tensorrt-rtx"] or {}
    lines = [f"- `{step}` fails: {_text(error)}\n" for step, error in found["failed"].items()]
    if "refused" in rtx:
        lines.append(f"- `tensorrt-rtx` refuses it: {_text(rtx['refused'])}\n")
    lines += _left(found["left"], "")
    if rtx.get("left") != found["left"]:
        lines += _left(rtx.get("left", []), " with `tensorrt-rtx`")
    return f"\n{found['name']}:\n\n{''.join(lines)}" if lines else ""


def _left(nodes: Sequence[Row], by: str) -> list[str]:
    return [
        f"- stays in PyTorch{by}: {node['count']} x `{node['operator']}`: {_text(node['reason'])}\n"
        for node in nodes
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _text(text: str) -> str:
    """Return a message as text of Markdown."""
    return " ".join(text.split()).replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
