"""Writes docs/numerics.md from the facts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnxruntime
import torch

from trt_export.compiling.differences import DIFFERENCES

from .facts import KINDS, Facts, name_of
from .left_out import LEFT_OUT
from .values import DTYPES

FILE = Path(__file__).parents[2] / "docs" / "numerics.md"

_VERSIONS = f"PyTorch {torch.__version__.split('+')[0]} and ONNX Runtime {onnxruntime.__version__}"

_HEAD = f"""# Numbers: where an engine differs from PyTorch

Made by `nox -s numerics`; a test fails if it is stale. Operators that trt-export converts were run on special values
(zeros of both signs, infinities, NaN, the largest, smallest and denormal numbers, ties, large integers, rows that are
empty or alike) in {_VERSIONS}, with the options that
trt-runtime runs it with, on an x86-64 CPU. [numerics.json](numerics.json) has the facts. TensorRT engines were not run.

- *same*: all results are equal; floats up to rounding (2e-6, 1e-13 and 2e-3 of the result for float32, float64 and
  float16), NaN for NaN, zeros with their signs.
- *PyTorch*: the operator stays in PyTorch, for the reason below; *-*: PyTorch has no such operator for the type.
- Otherwise what differs, with an example of each below: *NaN is lost* (PyTorch's result is NaN, the engine's is not),
  *NaN* (only the engine's is), *infinity* (one of the two is infinite: mostly sums that overflow on the way, in another
  order), *number* (both are finite), *rounding* (both are finite and near each other), *-0.0* (the sign of a zero).

What may matter to a program is in the report of `compile`: `CompileReport.differences`, once per operator.
"""


def page(facts: Facts) -> str:
    """Return the page."""
    return "\n".join(
        [
            _HEAD,
            "## What the report says\n",
            "| operator | what differs |\n|---|---|",
            *(f"| `{operator}` | {text} |" for operator, text in DIFFERENCES.items()),
            "\n## All operators\n",
            *_overview(facts),
            "\n## What differs: the first example of each kind\n",
            *_examples(facts),
            "\n## What stays in PyTorch\n",
            *_stays(facts),
            "\n## Not tried\n",
            *_left_out(),
            "",
        ]
    )


def _overview(facts: Facts) -> list[str]:
    names = [name_of(dtype) for dtype in DTYPES]
    lines = [f"| operator | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for operator, calls in facts.items():
        cells = (_cell([fact[name] for fact in calls.values() if name in fact]) for name in names)
        lines.append(f"| `{operator}` | {' | '.join(cells)} |")
    return lines


def _cell(facts: list[dict[str, Any]]) -> str:
    if not facts:
        return "-"
    found = {key for fact in facts for key in fact}
    if not found:
        return "same"
    if all("stays" in fact for fact in facts):
        return "PyTorch"
    words = [kind for kind in KINDS if kind in found]
    return ", ".join([*words, *(["some calls PyTorch"] if "stays" in found else [])])


def _examples(facts: Facts) -> list[str]:
    lines = ["| operator | kind | type | input | PyTorch | engine |", "|---|---|---|---|---|---|"]
    for operator, calls in facts.items():
        for kind in KINDS:
            found = [
                (call, dtype, fact[kind])
                for call, by_dtype in calls.items()
                for dtype, fact in by_dtype.items()
                if kind in fact
            ]
            if found:
                call, dtype, (given, expected, engine) = found[0]
                name = f"`{operator}`" + (f" ({call})" if call else "")
                lines.append(f"| {name} | {kind} | {dtype} | {given} | {expected} | {engine} |")
    return lines


def _stays(facts: Facts) -> list[str]:
    lines = ["| operator | types | reason |", "|---|---|---|"]
    for operator, calls in facts.items():
        reasons: dict[tuple[str, str], list[str]] = {}
        for call, by_dtype in calls.items():
            for dtype, fact in by_dtype.items():
                if "stays" in fact:
                    reasons.setdefault((call, fact["stays"]), []).append(dtype)
        merged: dict[tuple[str, tuple[str, ...]], list[str]] = {}
        for (call, reason), dtypes in reasons.items():
            merged.setdefault((reason, tuple(dtypes)), []).append(call)
        for (reason, dtypes_of), calls_of in merged.items():
            named = ", ".join(filter(None, calls_of))
            name = f"`{operator}`" + (f" ({named})" if named else "")
            lines.append(f"| {name} | {', '.join(dtypes_of)} | {reason} |")
    return lines


def _left_out() -> list[str]:
    lines = ["| why | operators |", "|---|---|"]
    for reason, operators in LEFT_OUT.items():
        lines.append(f"| {reason} | {', '.join(f'`{name}`' for name in operators)} |")
    return lines
