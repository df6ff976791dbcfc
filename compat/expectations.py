"""What each cell must show: counts from capabilities, warnings from what an exporter falls back on.

A count that is not listed must be zero. ``n`` is the number of distinct engines of a program.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from releases import rank

# Distinct engines of each program in scenarios/networks.py.
ENGINES = {"one engine": 1, "two engines, one used twice": 2, "dynamic shapes": 1}
KINDS = ("onnxruntime", "tensorrt-rtx")

# What a runtime release must answer, by its version; the working tree answers at least what the newest does.
CAPABILITIES: Mapping[str, frozenset[str]] = {
    "0.1.0": frozenset(),
    "0.2.0": frozenset({"tracing-mode-real"}),
    "0.3.0": frozenset({"tracing-mode-real", "metadata-only", "engine-tensor"}),
    "0.5.0": frozenset(
        {"tracing-mode-real", "metadata-only", "engine-tensor"}
        | {"record", "plan-digest", "tensor-state", "mapped-plans", "named-data-delegate"}
    ),
    "0.6.0": frozenset(
        {"tracing-mode-real", "metadata-only", "engine-tensor"}
        | {"record", "plan-digest", "tensor-state", "mapped-plans", "named-data-delegate"}
        | {"exact-int8"}
    ),
}

# The first runtime that saves the plan of an engine as a tensor, which older ones refuse (POLICY.md, rule 4).
TENSOR_STATE_SINCE = "0.5.0"

# The first runtime that runs a .pte; from there on every one must.
DELEGATE_SINCE = "0.4.0"

# Capabilities that an exporter release uses where they are there, and warns about where they are not.
USES: Mapping[str, frozenset[str]] = {
    "0.1.0": frozenset(),
    "0.2.0": frozenset({"metadata-only", "engine-tensor"}),
    "0.3.0": frozenset({"metadata-only", "engine-tensor", "plan-digest", "named-data-delegate"}),
}

# What a cell is slower at where the exporter lacks one of these: what it would use, or (tracing) torch itself.
READING = frozenset({"metadata-only", "engine-tensor"})


@dataclass(frozen=True)
class Expected:
    """What one cell must show."""

    capabilities: frozenset[str]
    warned: frozenset[str]
    slower: tuple[str, ...]
    has_delegate: bool
    format: str

    def counts(self, program: str) -> dict[str, dict[str, int]]:
        """Return the counters that must have risen, by phase."""
        n = ENGINES[program]
        traced = {} if "tracing" not in self.slower else _fakified(n)
        read = {} if "reading" not in self.slower else _serialized(n)
        return {"export": traced, "decompose": traced, "lower": read, "emit": {}}


def expected(runtime: str, export: str) -> Expected:
    """Return what the cell of these two versions (the packages' own, not ``dev``) must show."""
    has, uses = _at(CAPABILITIES, runtime), _at(USES, export)
    slower = [
        name
        for name, is_fast in (
            ("tracing", "tracing-mode-real" in has),
            ("reading", uses >= READING and has >= READING),
            ("hashing", "plan-digest" in has or "plan-digest" not in uses),
            ("inline", "named-data-delegate" in has or "named-data-delegate" not in uses),
        )
        if not is_fast
    ]
    named = "named-data-delegate" in uses & has
    return Expected(
        has, uses - has, tuple(slower), has_delegate(runtime), "named-data" if named else "tr01"
    )


def has_delegate(runtime: str) -> bool:
    """Whether a runtime of this version runs a `.pte`."""
    return rank(runtime) >= rank(DELEGATE_SINCE)


def reads_programs(loader: str, saver: str) -> bool:
    """Whether a runtime of version ``loader`` reads what one of version ``saver`` saved."""
    since = rank(TENSOR_STATE_SINCE)
    return rank(loader) >= since or rank(saver) < since


def ran_as_promised(scenario: str, outcome: str | None, promised: bool) -> bool:
    """Whether what a cell says of running a `.pte` is what its runtime's version promises.

    Without a GPU a TensorRT-RTX engine must be refused for the lack of one, and never just fail.
    """
    if not promised or outcome is None:
        return not promised and outcome is None
    no_gpu = outcome.startswith("refused: ") and "GPU" in outcome
    return outcome.startswith("ran ") or (scenario.startswith("tensorrt-rtx") and no_gpu)


def _at(table: Mapping[str, Any], version: str) -> Any:
    """Return the row of the newest version that is not newer than ``version``."""
    return table[max((known for known in table if rank(known) <= rank(version)), key=rank)]


def _serialized(n: int) -> dict[str, int]:
    return {"serializations": n, "base64_encodes": n}


def _fakified(n: int) -> dict[str, int]:
    # torch.export flattens each engine and then deep-copies it.
    return {
        "serializations": 2 * n,
        "base64_encodes": 2 * n,
        "deserializations": n,
        "base64_decodes": n,
    }


def scenarios() -> Collection[str]:
    """Return the name of every scenario that a cell must have run."""
    return [f"{kind}: {program}" for kind in KINDS for program in ENGINES]
