"""Compares the partitions of a program with PyTorch on samples, within a time."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.builders import NodeRefusal
from trt_export.compiling.bounds import DynamicBounds
from trt_export.compiling.report import EngineVerification, VerificationSummary
from trt_export.compiling.support import owner
from trt_export.compiling.verification.blame import (
    WRONG,
    WRONG_IF_OPTIMIZED,
    NotTheModelError,
)
from trt_export.compiling.verification.candidate import Candidate
from trt_export.compiling.verification.recording import record
from trt_export.compiling.verification.samples import EXAMPLE, Sample, samples
from trt_export.upstream_errors import first_line

_log = logging.getLogger("trt_export")

Nodes = tuple[Node, ...]

# What samples besides the examples may take: a share of the time of compiling until then, but something at least.
_SHARE = 0.5
_LEAST_SECONDS = 1.0


@dataclass
class Findings:
    """What speaks against partitions: nodes with reasons, and refusals of partitions that name no node."""

    reasons: dict[Node, str] = field(default_factory=dict)
    refusals: dict[Nodes, list[NodeRefusal]] = field(default_factory=dict)


@dataclass
class _Results:
    """Of one partition, by the name of the sample."""

    method: str
    doubt: str | None
    compared: dict[str, bool] = field(default_factory=dict)
    """Whether rounding had to be told from an error."""
    not_compared: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


class Verifier:
    """Verifies the partitions of one decomposed program.

    The example inputs are always compared. What other samples take is bounded by `seconds`; None stands for half of
    what compiling has taken since `began`, and at least 1 s. Samples are run in the order of their costs. A sample that
    found an error is run again once that is mended.
    """

    def __init__(
        self,
        program: ExportedProgram,
        bounds: DynamicBounds,
        *,
        seconds: float | None,
        began: float,
    ) -> None:
        self._program = program
        self._bounds = bounds
        self._seconds = seconds
        self._began = began
        self._spent = 0.0
        self._seconds_per_cost: list[tuple[float, float]] = []
        """Of samples that were run: what they cost, and the seconds for each unit of that."""
        self._required = {EXAMPLE}
        self._results: dict[Nodes, _Results] = {}
        self._ran: dict[str, None] = {}
        self._skipped: dict[str, str] = {}
        self._failing: dict[Nodes, dict[Node, Any]] = {}
        self.took = 0.0

    def verify(self, candidates: Sequence[Candidate], step: Callable[[int, int], None]) -> Findings:
        """Compare partitions with PyTorch on all samples; those that passed before are not compared again."""
        since = time.perf_counter()
        if self._seconds is None:
            self._seconds = max(_LEAST_SECONDS, _SHARE * (since - self._began))
        findings = Findings()
        for candidate in candidates:
            self._results.setdefault(candidate.nodes, _Results(candidate.method, candidate.doubt))
        try:
            chosen = sorted(samples(self._program, self._bounds), key=lambda sample: sample.cost)
        except MemoryError:
            raise
        except Exception as error:
            self._skipped[EXAMPLE] = first_line(error)
            chosen = []
        for number, sample in enumerate(chosen):
            step(number, len(chosen))
            pending = [c for c in candidates if self._is_pending(c, sample)]
            if pending and not self._run(sample, pending, findings) and sample.name == EXAMPLE:
                break  # example inputs may be on a device that is not here
        self.took += time.perf_counter() - since
        return findings

    def still_fails(self, whole: Nodes, part: Candidate) -> bool:
        """Whether a part of a partition that failed fails too, on the sample on which the whole did."""
        values = self._failing[whole]
        if any(node not in values for node in part.model.subprogram.inputs):
            return False
        return part.fails(values)

    def of_engine(self, nodes: Nodes) -> EngineVerification:
        """Return what was compared of a partition."""
        results = self._results.get(nodes)
        if results is None or not results.compared:
            reason = self._skipped.get(EXAMPLE, "verification is off")
            if results is not None and results.not_compared:
                reason = next(iter(results.not_compared.values()))
            return EngineVerification("nothing", not_compared={"anything": reason})
        return EngineVerification(
            results.method,
            tuple(results.compared),
            tuple(name for name, rounding in results.compared.items() if rounding),
            {**results.not_compared, **self._skipped},
            tuple(results.notes),
            results.doubt,
        )

    def summary(self) -> VerificationSummary:
        """Return the samples and the time."""
        return VerificationSummary(
            round(self.took, 3), round(self._seconds or 0.0, 3), tuple(self._ran), self._skipped
        )

    def _is_pending(self, candidate: Candidate, sample: Sample) -> bool:
        results = self._results[candidate.nodes]
        return sample.name not in results.compared and sample.name not in results.not_compared

    def _run(self, sample: Sample, candidates: Sequence[Candidate], findings: Findings) -> bool:
        """Run one sample, if there is time; False if it was not run."""
        assert self._seconds is not None
        if sample.name in self._skipped:
            return False
        if sample.name not in self._required and (
            self._spent + self._expected(sample) > self._seconds or self._seconds == 0
        ):
            self._skipped[sample.name] = "no time left: allow verification more seconds"
            return False
        since = time.perf_counter()
        kept = {node for c in candidates for node in c.borders}
        try:
            values = record(self._program, sample.make(), kept)
        except MemoryError:
            raise
        except Exception as error:
            doing = "does not run here" if sample.name == EXAMPLE else "refuses these values"
            self._skipped[sample.name] = f"the program {doing} in PyTorch: {first_line(error)}"
            _log.info("not verified on %s: %s", sample.name, self._skipped[sample.name])
            return False
        self._ran[sample.name] = None
        for candidate in candidates:
            self._compare(candidate, sample.name, values, findings)
        took = time.perf_counter() - since
        if sample.name != EXAMPLE:
            self._spent += took
        self._seconds_per_cost.append((sample.cost, took / sample.cost))
        return True

    def _expected(self, sample: Sample) -> float:
        """Estimate the seconds of a run from smaller ones; costs are of the worst case, so the least estimate holds."""
        least = (per_cost for cost, per_cost in self._seconds_per_cost if cost <= sample.cost)
        return sample.cost * min(least, default=0.0)

    def _compare(
        self, candidate: Candidate, sample: str, values: Mapping[Node, Any], findings: Findings
    ) -> None:
        results = self._results[candidate.nodes]
        is_blamed = candidate.nodes in self._failing
        if candidate.nodes in findings.refusals:
            return
        try:
            outputs = None if is_blamed else candidate.run(values)
        except MemoryError:
            raise
        except Exception as error:
            reason = f"ONNX Runtime cannot run it: {first_line(error)}"
            if sample != EXAMPLE:
                reason += f" (on {sample})"
            if candidate.must_run:
                self._fail(candidate, sample, values)
                name = candidate.model.file.named_node(str(error))
                findings.refusals[candidate.nodes] = [NodeRefusal(name, reason)]
            else:
                results.not_compared[sample] = reason
            return
        if outputs is not None and candidate.agrees(outputs, values):
            results.compared[sample] = False
            return
        try:
            wrong = candidate.blame.wrong_nodes(values)
            if wrong.nodes:
                self._fail(candidate, sample, values)
                for node in wrong.nodes:
                    findings.reasons.setdefault(owner(node), f"{WRONG} (on {sample})")
                return
            if outputs is None:
                return  # another sample found the nodes; what is left of them is compared again
            merged = candidate.blame.wrong_optimizations(values, outputs)
        except MemoryError:
            raise
        except Exception as error:
            if not isinstance(error, NotTheModelError):
                _log.info("no node by node comparison: %s", first_line(error))
            self._fail(candidate, sample, values)
            findings.refusals[candidate.nodes] = [NodeRefusal(None, f"{WRONG} (on {sample})")]
            return
        if merged is not None:
            self._fail(candidate, sample, values)
            findings.reasons[owner(merged)] = f"{WRONG_IF_OPTIMIZED} (on {sample})"
            return
        results.compared[sample] = True
        results.notes += [note for note in wrong.notes if note not in results.notes]

    def _fail(self, candidate: Candidate, sample: str, values: Mapping[Node, Any]) -> None:
        self._required.add(sample)
        kept = set(candidate.borders)
        self._failing[candidate.nodes] = {
            node: value
            for node, value in values.items()
            if node in kept or not isinstance(value, torch.Tensor)
        }
