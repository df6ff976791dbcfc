"""What one engine costs from torch.export to ExecuTorch, in whatever release pair this Python has installed.

    python engine_program.py FOLDER

``FOLDER`` holds ``engine.plan`` and ``engine.json`` of an engine with two int64 inputs ``[batch, sequence]``
(compare_pairs.py puts the sentence encoder's there). Prints one JSON object: seconds and counts by phase.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

import trt_export
import trt_runtime
from trt_export.edge import to_edge


class EncoderEngine(torch.nn.Module):
    """Token ids and mask, int64 ``[batch, sequence]``, to one embedding a sentence, by one engine."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        record = json.loads((folder / "engine.json").read_text())
        engine = trt_runtime.Engine.from_plan(folder / "engine.plan", record)
        self.engine = engine.script_object

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Call the engine."""
        (embedding,) = torch.ops.trt_runtime.execute_engine([ids, mask], self.engine)
        return embedding


class Phases:
    """Seconds and counter differences by phase; work of a phase may be in several pieces, and within another's."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, dict[str, int]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Do ``work`` as part of the phase ``name``."""
        before, start = trt_runtime.stats(), time.perf_counter()
        result = work()
        self.seconds[name] = self.seconds.get(name, 0) + time.perf_counter() - start
        after, counts = trt_runtime.stats(), self.counts.setdefault(name, {})
        for key in before:
            if after[key] != before[key]:
                counts[key] = counts.get(key, 0) + after[key] - before[key]
        return result


READ, VALIDATE, CHECK = "read the engine", "validate", "verify the plan's sha256"
# The passes of trt-export 0.2 that are our own work on an engine.
_PHASE_OF_PASS = {
    "read-records": READ,
    "validate": VALIDATE,
    "read-plans": READ,
    "check-plans": CHECK,
}


def watch_lowering(phases: Phases) -> None:
    """Have the phases within `to_edge` timed where they happen, in the exporter that is installed."""
    import trt_export.edge as edge

    for name in (READ, VALIDATE, CHECK):
        phases.run(name, lambda: None)
    if hasattr(edge, "PASSES"):
        edge.PASSES = tuple(
            replace(item, run=partial(_run_pass, phases, item))
            if item.name in _PHASE_OF_PASS
            else item
            for item in edge.PASSES
        )
        return
    # 0.1: one function reads record and plan, and verifies the plan.
    import trt_export.passes.pipeline as pipeline

    read, validate = pipeline.read_engine, pipeline.validate_call
    pipeline.read_engine = lambda engine: phases.run(READ, lambda: read(engine))
    pipeline.validate_call = lambda *call: phases.run(VALIDATE, lambda: validate(*call))


def _run_pass(phases: Phases, item: Any, state: Any) -> None:
    phases.run(_PHASE_OF_PASS[item.name], lambda: item.run(state))


def main(folder: Path) -> None:
    """Run every phase once and print what it cost."""
    warnings.simplefilter("ignore")
    module, phases = EncoderEngine(folder), Phases()
    batch, sequence = (
        torch.export.Dim("batch", min=1, max=16),
        torch.export.Dim("sequence", min=2, max=256),
    )
    dims = {0: batch, 1: sequence}
    ids = torch.ones(2, 7, dtype=torch.int64)
    torch.export.export(
        torch.nn.Linear(2, 2), (torch.ones(1, 2),)
    ).run_decompositions()  # first-use costs
    program = phases.run(
        "torch.export", lambda: torch.export.export(module, (ids, ids), dynamic_shapes=(dims, dims))
    )
    phases.run("run_decompositions", lambda: program.run_decompositions())
    watch_lowering(phases)
    edge = phases.run("to_edge, with the three above", lambda: to_edge(program))
    phases.run("to_executorch", edge.to_executorch)
    print(
        json.dumps(
            {
                "runtime": trt_runtime.__version__,
                "export": trt_export.__version__,
                "seconds": phases.seconds,
                "counts": phases.counts,
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
