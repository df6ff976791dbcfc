"""Delegates of a `.pte`, by their payloads and the plans that these hold or refer to."""

import hashlib
import mmap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from trt_export.delegate.blob import BlobMetadata, inline_record, parse_header, parse_metadata
from trt_export.delegate.header import DelegateHeader, check_reference, parse_payload
from trt_export.engines.metadata import parse_provenance
from trt_export.engines.record import check_header
from trt_export.errors import CorruptPlanError, FileFormatError, TrtExportError
from trt_export.files.pte import Delegate, Method, read_pte
from trt_export.formats import BACKENDS, DATA_FILE, NAMED_DATA, TR01
from trt_export.inspecting.engine import plan_fields, profile
from trt_export.inspecting.model import BindingInfo, DelegateInfo, EngineInfo, MethodInfo, PteInfo
from trt_export.plan import read_plan_header

Plans: TypeAlias = Mapping[str, memoryview]


def pte_info(path: Path) -> PteInfo:
    """Read a `.pte`; raises FileFormatError."""
    with path.open("rb") as file:
        # Not closed by hand: an error on its way up holds views of it. The last view unmaps it.
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    try:
        pte = read_pte(data)
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from error
    plans = {
        entry.key: data[segment.offset : segment.offset + segment.size]
        for entry in pte.named_data
        for segment in (pte.segments[entry.segment],)
    }
    methods = tuple(
        _method(method, data, plans, _shared_buffers(method, pte.methods)) for method in pte.methods
    )
    return PteInfo(str(path), len(data), pte.program_size, methods, pte.segments, pte.named_data)


def _shared_buffers(
    method: Method, methods: Sequence[Method]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The buffers that a method shares, by the other method; as trt-runtime decides it when it loads the file."""
    if len({other.planned_memory[1:] for other in methods}) != 1 or len(method.planned_memory) != 2:
        return ()
    common = (
        (other.name, sorted({*method.state} & {*other.state}))
        for other in methods
        if other is not method
    )
    return tuple(
        (name, tuple(text or f"byte {offset}" for offset, text in places))
        for name, places in common
        if places
    )


def _method(
    method: Method,
    data: memoryview,
    plans: Plans,
    shared_buffers: tuple[tuple[str, tuple[str, ...]], ...],
) -> MethodInfo:
    return MethodInfo(
        method.name,
        method.inputs,
        method.outputs,
        method.operators,
        method.planned_memory,
        tuple(_delegate(delegate, data, plans) for delegate in method.delegates),
        method.mutated_inputs,
        shared_buffers,
        method.input_names,
    )


def _delegate(delegate: Delegate, data: memoryview, plans: Plans) -> DelegateInfo:
    engine, problem = None, None
    payload = data[delegate.offset : delegate.offset + delegate.size]
    try:
        if delegate.backend == BACKENDS[TR01]:
            engine = _inline(payload)
        elif delegate.backend == BACKENDS[NAMED_DATA]:
            engine = _referred(payload, plans, is_external=DATA_FILE in delegate.compile_specs)
    except TrtExportError as error:
        problem = str(error)
    return DelegateInfo(
        delegate.backend,
        delegate.offset,
        delegate.size,
        delegate.inline,
        delegate.compile_specs,
        engine,
        problem,
    )


def _referred(payload: memoryview, plans: Plans, *, is_external: bool) -> EngineInfo:
    """The engine of a payload whose plan is in the named data, or in a data file that is not looked for."""
    header = parse_payload(payload)
    plan = plans.get(header.plan_key)
    if plan is None and not is_external:
        raise CorruptPlanError(
            f"the plan {header.plan_key!r} is not among the file's named data; lower the program again"
        )
    check_reference(header)
    if plan is not None and (found := hashlib.sha256(plan).hexdigest()) != header.plan_sha256:
        raise CorruptPlanError(
            f"the plan is damaged: sha256 {found}, its payload says {header.plan_sha256}; lower the program again"
        )
    described = {
        "plan_format": header.plan_format,
        "plan_size": header.plan_size,
        "plan_version": None,
        "compute_capabilities": None,
    }
    return EngineInfo(
        name=header.record.name,
        container="TRTN, plan in a data file" if plan is None else "TRTN",
        **(
            described if plan is None else plan_fields(check_header(header.record, plan, len(plan)))
        ),
        device=header.record.device,
        hardware_compatible=header.record.hardware_compatible,
        target_platform=header.record.target_platform,
        bindings=_bindings(header),
        aliased_io=tuple((a.output, a.input, a.kind) for a in header.record.aliased_io),
        provenance=header.record.provenance,
    )


def _bindings(header: DelegateHeader) -> tuple[BindingInfo, ...]:
    """In the order of the delegate's arguments."""
    return tuple(
        BindingInfo(b.name, role, b.dtype, b.shape, profile(b))
        for role, items in (("input", header.inputs), ("output", header.outputs))
        for b in items
    )


def _inline(blob: memoryview) -> EngineInfo:
    header = parse_header(blob, len(blob))
    text = bytes(blob[header.metadata_offset : header.metadata_offset + header.metadata_size])
    metadata = parse_metadata(text, header.magic)
    plan = read_plan_header(blob[header.engine_offset :])
    profiles = _profiles(metadata, blob[header.engine_offset :])
    return EngineInfo(
        name="",
        container=header.magic.decode(),
        **plan_fields(plan),
        device="cpu" if metadata.device_id < 0 else f"cuda:{metadata.device_id}",
        hardware_compatible=metadata.hardware_compatible,
        target_platform=metadata.target_platform,
        bindings=tuple(
            BindingInfo(
                b.name,
                "input" if b.is_input else "output",
                b.dtype,
                b.shape,
                profiles.get(b.name) if b.is_input else None,
            )
            for b in metadata.io_bindings
        ),
        aliased_io=tuple((a.output, a.input, a.kind) for a in metadata.aliased_io),
        provenance=parse_provenance(metadata.serialized_metadata),
    )


def _profiles(
    metadata: BlobMetadata, plan: memoryview
) -> dict[str, dict[str, tuple[int, ...]] | None]:
    """The profiles of an engine's inputs, if its record is ours; record and plan are then checked.

    Raises:
        EngineRecordError: the record is no good, or not that of the blob's bindings.
        PlanError: the plan is not the one that the record describes.
    """
    text = metadata.serialized_metadata
    if not text.lstrip().startswith("{"):
        return {}  # Somebody else's, such as a pickle, which is not read.
    record = inline_record(metadata)
    check_header(record, plan, len(plan))
    found, digest = hashlib.sha256(plan).hexdigest(), record.plan["sha256"]
    if found != digest:
        raise CorruptPlanError(
            f"the plan is damaged: sha256 {found}, its metadata says {digest}; lower the program again"
        )
    return {binding.name: profile(binding) for binding in record.inputs}
