"""The passes that make programs ExecuTorch can lower: find, ask, read, validate everything, and only then rewrite."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.engines.fallback import announce_fallbacks
from trt_export.engines.find import EngineCall, find_calls
from trt_export.engines.probe import (
    ENGINE_TENSOR,
    METADATA_ONLY,
    NAMED_DATA_DELEGATE,
    PLAN_DIGEST,
    EngineCapabilities,
    probe,
)
from trt_export.engines.read import EngineReader
from trt_export.engines.record import EngineRecord, check_plan, record_strings
from trt_export.errors import LoweringError, NoEngineError, TrtExportError
from trt_export.formats import Format
from trt_export.passes.choose import backend_for, check_format
from trt_export.passes.describe import describe
from trt_export.passes.pipeline import Pass
from trt_export.passes.plan_store import StoredPlan, store
from trt_export.passes.rewrite import LoweredCall, rewrite
from trt_export.passes.validate import (
    validate_call,
    validate_constants,
    validate_inputs,
    validate_precision,
)


@dataclass
class Lowering:
    """What the passes hand on.

    `engines`, `backends` and `plans` are by `EngineCall.identity`, `records` by the call's node. `plans` is what keeps
    the plans stored that the prepared programs refer to.
    """

    programs: Mapping[str, ExportedProgram]
    format: Format | None = None
    data_file: str | None = None
    calls: dict[str, tuple[EngineCall, ...]] = field(default_factory=dict)
    capabilities: dict[int, EngineCapabilities] = field(default_factory=dict)
    engines: dict[int, EngineReader] = field(default_factory=dict)
    records: dict[Node, EngineRecord] = field(default_factory=dict)
    backends: dict[int, str] = field(default_factory=dict)
    plans: dict[int, StoredPlan] = field(default_factory=dict)
    prepared: dict[str, ExportedProgram] = field(default_factory=dict)

    def each_call(self) -> Iterator[tuple[str, EngineCall]]:
        """All calls with their methods' names."""
        for method, calls in self.calls.items():
            for call in calls:
                yield method, call


def _find(state: Lowering) -> None:
    for method, program in state.programs.items():
        if not isinstance(program, ExportedProgram):
            raise LoweringError(
                f"method {method!r} is a {type(program).__name__}, expected an ExportedProgram:"
                " torch.export.export(...), then trt_export.compile(...)"
            )
        state.calls[method] = find_calls(program)
    if not any(state.calls.values()):
        raise NoEngineError(
            f"no engine call in {', '.join(map(repr, state.programs)) or 'no method'}: compile a program first"
            " (trt_export.compile); ExecuTorch's own to_edge_transform_and_lower is for programs without engines"
        )


def _probe(state: Lowering) -> None:
    for _, call in state.each_call():
        if call.identity not in state.engines:
            capabilities = probe(call.engine)
            state.capabilities[call.identity] = capabilities
            state.engines[call.identity] = EngineReader(call.engine, capabilities)
    needed = [METADATA_ONLY, ENGINE_TENSOR, PLAN_DIGEST]
    if state.format is None:
        needed.append(NAMED_DATA_DELEGATE)
    announce_fallbacks(state.capabilities.values(), needed)


def _choose_formats(state: Lowering) -> None:
    check_format(state.format)
    for method, call in state.each_call():
        capabilities = state.capabilities[call.identity]
        with _named(method, call):
            state.backends[call.identity] = backend_for(capabilities, state.format, state.data_file)


def _read_records(state: Lowering) -> None:
    for method, call in state.each_call():
        with _named(method, call):
            state.records[call.node] = describe(call, state.engines[call.identity])


def _validate(state: Lowering) -> None:
    for method, program in state.programs.items():
        validate_inputs(method, program)
        validate_constants(method, program)
    for method, call in state.each_call():
        with _named(method, call):
            validate_call(call, state.records[call.node])


def _read_plans(state: Lowering) -> None:
    for method, call in state.each_call():
        with _named(method, call):
            reader = state.engines[call.identity]
            state.plans[call.identity] = store(reader.plan(), reader.sha256())


def _check_plans(state: Lowering) -> None:
    formats: dict[int, str] = {}
    for method, call in state.each_call():
        record = state.records[call.node]
        with _named(method, call):
            if call.identity not in formats:
                plan = state.plans[call.identity]
                formats[call.identity] = check_plan(record, plan.data, plan.sha256).format
            validate_precision(call, record, formats[call.identity])


def _rewrite(state: Lowering) -> None:
    for method, program in state.programs.items():
        calls = [
            LoweredCall(
                call,
                state.records[call.node],
                _strings(state.engines[call.identity], state.records[call.node]),
                state.plans[call.identity],
                state.backends[call.identity],
            )
            for call in state.calls[method]
        ]
        state.prepared[method] = rewrite(program, calls)


PREPARE: tuple[Pass[Lowering], ...] = (
    Pass("find", _find),
    Pass("probe", _probe, after=("find",)),
    Pass("choose-formats", _choose_formats, after=("probe",)),
    Pass("read-records", _read_records, after=("probe", "choose-formats")),
    Pass("validate", _validate, after=("read-records",)),
    # A plan is read when everything that can be said without it is fine.
    Pass("read-plans", _read_plans, after=("probe", "validate")),
    Pass("check-plans", _check_plans, after=("read-records", "read-plans")),
    Pass("rewrite", _rewrite, after=("validate", "check-plans")),
)


def _strings(reader: EngineReader, record: EngineRecord) -> tuple[str, ...]:
    return record_strings(reader.metadata(), record if reader.is_foreign else None)


@contextmanager
def _named(method: str, call: EngineCall) -> Iterator[None]:
    try:
        yield
    except TrtExportError as error:
        raise type(error)(f"method {method!r}, node {call.node.name!r}: {error}") from error
