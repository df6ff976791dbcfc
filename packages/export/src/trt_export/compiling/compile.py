"""`compile`: from a PyTorch program to one that calls engines."""

import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from numbers import Real
from typing import Any

from torch.export import ExportedProgram

from trt_export.arguments import check_argument, check_callback
from trt_export.builders import Builder, get_builder
from trt_export.compiling.bounds import DynamicBounds
from trt_export.compiling.decomposition import decompose
from trt_export.compiling.differences import differences
from trt_export.compiling.engines import EngineMaker
from trt_export.compiling.narrow import narrow
from trt_export.compiling.report import (
    CompileReport,
    EngineSummary,
    LeftNode,
    Phase,
    ProgressCallback,
    VerificationSummary,
)
from trt_export.compiling.splice import BuiltPartition, splice
from trt_export.compiling.subprogram import Source
from trt_export.compiling.support import is_computation
from trt_export.compiling.verification import Verifier
from trt_export.errors import (
    ComputeCapabilityError,
    NothingToCompileError,
    UnsupportedProgramError,
)
from trt_export.one_at_a_time import one_at_a_time
from trt_export.upstream_errors import of_caller, wrapped_errors

_log = logging.getLogger("trt_export")


@one_at_a_time
def compile(
    exported_program: ExportedProgram,
    *,
    builder: str | Builder = "onnxruntime",
    compute_capabilities: Sequence[str] | None = None,
    dynamic: Mapping[str, Sequence[int]] | None = None,
    on_report: Callable[[CompileReport], None] | None = None,
    on_progress: ProgressCallback | None = None,
    verify: bool | float = True,
) -> ExportedProgram:
    """Replace all parts of a program that the builder takes by calls of engines; the rest stays in PyTorch.

    The result has the source's inputs, outputs, names and dynamic shapes. It runs in PyTorch, by itself or as
    `.module()`, and `torch.export.save` writes it with its engines. The source is not changed, and running the
    result does not change the source's buffers. The result is for inference: it has no gradients.

    Calls of several threads, and those of `to_edge` and `save`, wait for each other.

    Args:
        exported_program: what `torch.export.export` or `torch.export.load` returned.
        builder: `"onnxruntime"` (runs on any CPU), `"tensorrt-rtx"` (needs no GPU to build), `"tensorrt"` (needs the
            GPU that it builds for), or a `Builder`.
        compute_capabilities: for `tensorrt-rtx`, the GPUs to build for, as `["8.6", "12.0"]`; None means all that it
            can build every type for.
        dynamic: `(min, opt, max)` sizes of dynamic dimensions: needed for those that were exported without a maximum,
            allowed for all. A dimension is called `"<input>.<dimension>"` (`"tokens.1"`), by the name of its
            `torch.export.Dim`, or by its symbol (`"s31"`).
        on_report: called once with what became of the program. Without it, what stays in PyTorch is logged as a warning
            of the logger `trt_export`.
        on_progress: called with the phase, the steps done and the steps that there are.
        verify: how long engines may be compared with PyTorch on more than the example inputs, in seconds; what
            computes other numbers stays in PyTorch. True means half as long as compiling has taken until then, and at
            least 1 s; 0 the example inputs alone; False nothing (docs/verification.md).

    Returns:
        A new program; its engines are `trt_runtime.Engine` objects in `constants`.

    Raises:
        UnsupportedProgramError: it is no ExportedProgram, or torch cannot decompose it, or torch or torch.onnx fail
            otherwise; the message names the phase, `__cause__` is their error. Errors of `on_report`, of `on_progress`
            and lack of memory come as they are.
        ArgumentError: another argument of a type or value that it does not take.
        UnknownBuilderError, MissingBuilderError, ComputeCapabilityError: see `get_builder`.
        UnboundedDimensionError, DynamicShapeError: see `dynamic`.
        NothingToCompileError: no part of the program can be in an engine; the message has the reasons.
        BuildFailedError: the builder failed, or raised an error of its own; the message has its log.
    """
    if not isinstance(exported_program, ExportedProgram):
        raise UnsupportedProgramError(
            f"expected an ExportedProgram, got {type(exported_program).__name__}: call torch.export.export(...) first"
        )
    if isinstance(builder, Builder):
        if compute_capabilities is not None:
            raise ComputeCapabilityError(
                "state the compute capabilities when making the Builder, not again here"
            )
        maker = builder
    else:
        maker = get_builder(builder, compute_capabilities)
    check_callback("on_report", on_report)
    check_callback("on_progress", on_progress)
    seconds = _seconds(verify)
    clock = _Clock(None if on_progress is None else of_caller(on_progress))
    with wrapped_errors(
        UnsupportedProgramError,
        lambda: f"compile, phase {clock.phase!r}",
        "export the program again with this version of torch, and see the cause (`__cause__`) for torch's own words",
    ):
        compiled, report = _compile(
            exported_program,
            maker,
            dynamic,
            clock,
            is_verified=verify is not False,
            seconds=seconds,
        )
    if on_report is not None:
        on_report(report)
    elif report.left_in_pytorch:
        left = report.left_in_pytorch
        total = len(left) + sum(sum(engine.operators.values()) for engine in report.engines)
        _log.warning("%d of %d operators stay in PyTorch:\n%s", len(left), total, _listed(left))
    return compiled


def _compile(
    source: ExportedProgram,
    maker: Builder,
    dynamic: Mapping[str, Sequence[int]] | None,
    clock: "_Clock",
    *,
    is_verified: bool,
    seconds: float | None,
) -> tuple[ExportedProgram, CompileReport]:
    began = time.perf_counter()
    bounds = DynamicBounds(source, dynamic)
    clock.step("decompose", 0, 1)
    program = decompose(source)
    if bounds.stated:
        constraints = bounds.constraints(program)
        narrow(program, {symbol: constraints[symbol] for symbol in bounds.stated})
    verifier = Verifier(program, bounds, seconds=seconds, began=began) if is_verified else None
    engines = EngineMaker(Source.of(program), maker, bounds, clock.step, verifier)
    computations = [node for node in program.graph.nodes if is_computation(node)]
    built = engines.make()
    taken = {node for partition in built for node in partition.subprogram.nodes}
    left = tuple(
        LeftNode(node.name, str(node.target), engines.reasons.get(node, "its result is not used"))
        for node in computations
        if node not in taken
    )
    if not built:
        raise NothingToCompileError(
            f"no part of the program can become {_with_article(maker.name)} engine:\n{_listed(left)}"
        )
    summaries = tuple(_summary(partition) for partition in built)
    clock.step("splice", 0, 1)
    compiled = splice(program, built, bounds.constraints(program))
    differing = differences(node for node in computations if node in taken)
    report = CompileReport(
        maker.name,
        summaries,
        left,
        all(summary.verification for summary in summaries),
        clock.stop(),
        VerificationSummary() if verifier is None else verifier.summary(),
        differing if maker.runs_onnxruntime else {},
    )
    return compiled, report


def _seconds(verify: Any) -> float | None:
    """Return the time that verification may take, None for the usual one."""
    if isinstance(verify, bool):
        return None
    seconds = -1.0
    if isinstance(verify, Real):
        with suppress(OverflowError):  # an integer beyond all floats
            seconds = float(verify)
    check_argument(
        "verify",
        verify,
        0 <= seconds < math.inf,
        "True, False or a number of seconds from 0",
    )
    return seconds


class _Clock:
    """Passes progress on and keeps the time of each phase."""

    def __init__(self, callback: ProgressCallback | None) -> None:
        self._callback = callback
        self._seconds: dict[str, float] = {}
        self._phase: Phase | None = None
        self._since = 0.0
        self.phase: Phase | None = None
        """The last phase that has begun."""

    def step(self, phase: Phase, done: int, total: int) -> None:
        self.stop()
        self._phase = self.phase = phase
        if self._callback is not None:
            self._callback(phase, done, total)

    def stop(self) -> dict[str, float]:
        now = time.perf_counter()
        if self._phase is not None:
            self._seconds[self._phase] = self._seconds.get(self._phase, 0) + now - self._since
        self._phase, self._since = None, now
        return dict(self._seconds)


def _summary(partition: BuiltPartition) -> EngineSummary:
    info = partition.engine.info
    operators = Counter(
        str(node.target) for node in partition.subprogram.nodes if is_computation(node)
    )
    assert info.plan is not None
    return EngineSummary(
        info.name, info.device, info.plan.size, dict(operators), partition.verification
    )


def _with_article(name: str) -> str:
    return f"{'an' if name[:1].lower() in tuple('aeiou') else 'a'} {name}"


def _listed(left: Sequence[LeftNode]) -> str:
    counts = Counter((node.operator, node.reason) for node in left)
    return (
        "\n".join(
            f"  {count} x {operator}: {reason}" for (operator, reason), count in counts.items()
        )
        or "  it computes nothing: its outputs are inputs and constants"
    )
