"""What came of every operator, as data: docs/numerics.json."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from .measuring import Difference, Outcome, measure
from .operators import cases
from .values import DTYPES

FILE = Path(__file__).parents[2] / "docs" / "numerics.json"

Facts = dict[str, dict[str, dict[str, Any]]]
"""By operator, call and dtype: `{}` the same numbers, `{"stays": reason}`, or `{kind: [given, PyTorch, engine]}`."""

KINDS = ("NaN is lost", "NaN", "infinity", "number", "rounding", "-0.0")


def facts(dtypes: Iterable[torch.dtype] = DTYPES) -> Facts:
    """Run every operator with the dtypes."""
    found: Facts = {}
    for dtype in dtypes:
        for outcome in measure(cases(), dtype):
            calls = found.setdefault(str(outcome.case.overload), {})
            calls.setdefault(outcome.case.note, {})[name_of(dtype)] = _fact(outcome)
    return found


def committed() -> Facts:
    """Return the facts in docs."""
    found: Facts = json.loads(FILE.read_text())
    return found


def of_dtype(found: Facts, dtype: torch.dtype) -> Facts:
    """Return the facts of one dtype alone."""
    name = name_of(dtype)
    kept = {
        operator: {call: {name: fact[name]} for call, fact in calls.items() if name in fact}
        for operator, calls in found.items()
    }
    return {operator: calls for operator, calls in kept.items() if calls}


def name_of(dtype: torch.dtype) -> str:
    """Return the name without `torch.`."""
    return str(dtype).removeprefix("torch.")


def text_of(found: Facts) -> str:
    """Return the facts as they are written: a line a call."""
    operators = []
    for operator, calls in found.items():
        lines = [f"  {json.dumps(call)}: {json.dumps(fact)}" for call, fact in calls.items()]
        operators.append(f" {json.dumps(operator)}: {{\n" + ",\n".join(lines) + "}")
    return "{\n" + ",\n".join(operators) + "\n}\n"


def _fact(outcome: Outcome) -> dict[str, Any]:
    if outcome.stays:
        return {"stays": _reason(outcome.stays)}
    fact: dict[str, Any] = {}
    for kind in KINDS:
        first = next((one for one in outcome.differences if _kind(one) == kind), None)
        if first is not None:
            fact[kind] = [first.given, first.pytorch, first.engine]
    return fact


def _kind(difference: Difference) -> str:
    try:
        expected, found = float(difference.pytorch), float(difference.engine)
    except ValueError:  # True, False, shapes
        return "number"
    if math.isnan(expected):
        return "NaN is lost"
    if math.isnan(found):
        return "NaN"
    if math.isinf(expected) or math.isinf(found):
        return "infinity"
    if expected == found == 0:
        return "-0.0"
    if "." in difference.pytorch + difference.engine or "e-" in difference.pytorch:
        return "rounding" if math.isclose(expected, found, rel_tol=1e-3, abs_tol=1e-6) else "number"
    return "number"


def _reason(reason: str) -> str:
    """Return a reason without names of nodes and codes, which change."""
    if found := re.search(r"Could not find an implementation for (\w+)\(", reason):
        return f"ONNX Runtime has no {found[1]} of this type"
    if found := re.search(
        r"Type 'tensor\((\w+)\)' of input parameter .* of operator \((\w+)\)", reason
    ):
        return f"ONNX has no {found[2]} of {found[1]}"
    if found := re.search(r"while running (\w+) node.*?Status Message: (.*)", reason):
        return f"ONNX Runtime cannot run {found[1]} of this type"
    return re.sub(r"^ONNX Runtime: \w+: \[ONNXRuntimeError\] : \d+ : \w+ : ", "", reason).split(
        " ("
    )[0]
