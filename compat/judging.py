"""Judge the facts that the cells reported: fast, slower, refused or FAILED."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from expectations import (
    ENGINES,
    expected,
    has_delegate,
    ran_as_promised,
    reads_programs,
    scenarios,
)

Facts = Mapping[str, Any]

# What torch says of a state that is not of the type that the older runtime takes: `torch.export.load` logs "Expected
# a value of type 'List[str]' ... found type 'Tuple[int, List[str], Tensor]'" and raises its own words.
REFUSED = re.compile(
    r"Expected a value of type .* found type|error when deserializing the saved file"
)


@dataclass(frozen=True)
class Verdict:
    """What a cell of the matrix says; ``details`` are the fallbacks, the refusal, or what is wrong."""

    runtime: str
    export: str
    outcome: str
    details: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.outcome == "fast":
            return "fast"
        return f"{self.outcome}: {', '.join(self.details)}"


def judge(
    cells: Sequence[Facts], refusals: Mapping[tuple[str, str], str] | None = None
) -> list[Verdict]:
    """Judge every cell; payloads must be the same in all of them.

    Args:
        cells: the facts.
        refusals: the pairs that the policy refuses, with its words; no other pair may fail to install.
    """
    payloads = _agreed_payloads(cells)
    return [_judge(cell, payloads, refusals or {}) for cell in cells]


def _agreed_payloads(cells: Sequence[Facts]) -> dict[tuple[str, str], list[str]]:
    """Return each scenario's payloads, by its name and their format, in the first cell that has them."""
    agreed: dict[tuple[str, str], list[str]] = {}
    for cell in cells:
        for name, facts in cell.get("scenarios", {}).items():
            if facts["error"] is None:
                form = expected(cell["runtime"], cell["export"]).format
                agreed.setdefault((name, form), facts["payloads"])
    return agreed


def _without_hashes(counts: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int]]:
    """Counts without those of sha256 sums: a plan has one, which may have been computed before."""
    return {
        phase: {name: count for name, count in counted.items() if name != "plan_hashes"}
        for phase, counted in counts.items()
    }


def _judge(
    cell: Facts,
    payloads: Mapping[tuple[str, str], list[str]],
    refusals: Mapping[tuple[str, str], str],
) -> Verdict:
    runtime, export = cell["cell"]
    words = refusals.get((runtime, export))
    if "refused" in cell:
        if words is None:
            return Verdict(runtime, export, "FAILED", (f"not installed: {cell['refused']}",))
        return Verdict(runtime, export, "refused", (words,))
    if words is not None:
        return Verdict(runtime, export, "FAILED", (f"ran, though the policy says: {words}",))
    if "crashed" in cell:
        return Verdict(runtime, export, "FAILED", (f"crashed: {cell['crashed']}",))
    promise = expected(cell["runtime"], cell["export"])
    wrong = []
    if not promise.capabilities <= set(cell["capabilities"]):
        wrong.append(
            f"capabilities {cell['capabilities']}, expected at least {sorted(promise.capabilities)}"
        )
    for name in scenarios():
        facts = cell["scenarios"].get(name)
        if facts is None:
            wrong.append(f"{name}: did not run")
        elif facts["error"] is not None:
            wrong.append(f"{name}: {facts['error']}")
        else:
            program = name.split(": ")[1]
            if _without_hashes(facts["counts"]) != promise.counts(program):
                wrong.append(
                    f"{name}: counts {facts['counts']}, expected {promise.counts(program)}"
                )
            hashes = sum(counts.get("plan_hashes", 0) for counts in facts["counts"].values())
            if hashes > ENGINES[program]:
                wrong.append(f"{name}: {hashes} plans hashed, expected one for each engine")
            if not ran_as_promised(name, facts["executorch"], promise.has_delegate):
                wrong.append(f"{name}: in ExecuTorch: {facts['executorch']}")
            if facts["payloads"] != payloads[name, promise.format]:
                wrong.append(f"{name}: payloads differ from those of the other cells")
    wrong += _judge_warnings(cell["warnings"], promise.warned)
    if wrong:
        return Verdict(runtime, export, "FAILED", tuple(wrong))
    return Verdict(runtime, export, "slower" if promise.slower else "fast", promise.slower)


def _judge_warnings(found: Sequence[str], promised: frozenset[str]) -> list[str]:
    wrong = []
    for capability in sorted(promised):
        naming = [text for text in found if capability in text]
        if len(naming) != 1:
            wrong.append(f"{len(naming)} warnings name {capability}, expected one")
    wrong += [
        f"unexpected warning: {text}" for text in found if not any(c in text for c in promised)
    ]
    return wrong


def judge_loads(loads: Sequence[Facts], runtimes: Sequence[str]) -> list[str]:
    """Return what is wrong with programs that one runtime saved and another loaded."""
    wrong = []
    # The working tree's name says nothing of its version.
    versions = {facts["cell"][0]: facts["runtime"] for facts in loads if "runtime" in facts}
    for facts in loads:
        loader = facts["cell"][0]
        if "crashed" in facts:
            wrong.append(f"runtime {loader} crashed: {facts['crashed']}")
            continue
        for saver in runtimes:
            mine = {name for name in facts["scenarios"] if name.startswith(f"{saver}/")}
            if not {name.split("/", 2)[2] for name in mine} >= set(scenarios()):
                wrong.append(f"runtime {loader} did not load every program of {saver}")
        for name, found in facts["scenarios"].items():
            saver = name.split("/")[0]
            if reads_programs(facts["runtime"], versions.get(saver, saver)):
                if found["error"] is not None:
                    wrong.append(f"runtime {loader}, program {name}: {found['error']}")
            elif found["error"] is None:
                wrong.append(f"runtime {loader}, program {name}: loaded, expected it to be refused")
            elif not REFUSED.search(found["error"]):
                wrong.append(
                    f"runtime {loader}, program {name}: expected it to be refused with expected and "
                    f"found, found: {found['error']}"
                )
        promised = has_delegate(facts["runtime"])
        wrong += [
            f"runtime {loader}, program {name}, in ExecuTorch: {found['executorch']}"
            for name, found in facts["scenarios"].items()
            if found["error"] is None
            and not ran_as_promised(name.split("/", 2)[2], found["executorch"], promised)
        ]
    return wrong
