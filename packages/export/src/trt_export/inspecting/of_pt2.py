"""Engines in a `.pt2`, by the records in their states."""

from pathlib import Path

from trt_export.engines.metadata import Binding
from trt_export.engines.record import (
    binding_names,
    check_header,
    check_plan,
    parse_foreign_record,
    parse_record,
)
from trt_export.engines.slots import FOREIGN_ABIS, full_record
from trt_export.errors import FileFormatError, TrtExportError
from trt_export.files.pt2 import FOREIGN_CLASS, StoredEngine, read_pt2
from trt_export.inspecting.engine import engine_info, profile
from trt_export.inspecting.model import BindingInfo, EngineInfo, Pt2Info, StoredEngineInfo


def pt2_info(path: Path) -> Pt2Info:
    """Read a `.pt2`; raises FileFormatError."""
    archive = read_pt2(path)
    engines = tuple(_stored_engine(stored) for stored in archive.engines)
    return Pt2Info(str(path), path.stat().st_size, archive.weights_size, archive.programs, engines)


def _stored_engine(stored: StoredEngine) -> StoredEngineInfo:
    try:
        if not isinstance(stored.state, list):
            raise FileFormatError(
                f"engine {stored.name!r} has a state of type {type(stored.state).__name__}, expected a list"
            )
        read = _foreign_info if stored.type == FOREIGN_CLASS else _record_info
        return StoredEngineInfo(stored.name, stored.type, read(stored))
    except TrtExportError as error:
        return StoredEngineInfo(stored.name, stored.type, problem=str(error))


def _record_info(stored: StoredEngine) -> EngineInfo:
    full = full_record(stored.state)
    record = parse_record(full.metadata)
    bindings = tuple(
        BindingInfo(b.name, role, b.dtype, b.shape, profile(b))
        for role, items in (("input", record.inputs), ("output", record.outputs))
        for b in items
    )
    if stored.plan is None:
        plan = check_plan(record, full.decode_plan())
    else:  # as large as it is, and read by whoever runs it: only its header is looked at here
        plan = check_header(record, stored.plan.start, stored.plan.size)
    return engine_info(record, plan, bindings)


def _foreign_info(stored: StoredEngine) -> EngineInfo:
    """An engine of torch-tensorrt: its pickled metadata is not read, so its bindings have names only."""
    full = full_record(stored.state, FOREIGN_ABIS)
    names = binding_names(full.metadata)
    inputs, outputs = ([Binding(name, "", ()) for name in items] for items in names)
    record = parse_foreign_record(full.metadata, inputs, outputs)
    bindings = tuple(
        BindingInfo(name, role, None, None)
        for role, items in zip(("input", "output"), names, strict=True)
        for name in items
    )
    return engine_info(record, check_plan(record, full.decode_plan()), bindings)
