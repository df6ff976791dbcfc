"""What is in a file: `.pte` programs and `.pt2` programs with engines, read without loading anything."""

import hashlib
import mmap
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trt_export.delegate.blob import BACKEND_ID, parse_header, parse_metadata
from trt_export.engines.metadata import Binding, parse_provenance
from trt_export.engines.metadata import parse_metadata as read_metadata
from trt_export.engines.record import (
    EngineRecord,
    binding_names,
    check_header,
    check_plan,
    parse_foreign_record,
    parse_record,
)
from trt_export.engines.slots import FOREIGN_ABIS, full_record
from trt_export.errors import (
    CorruptPlanError,
    EngineRecordError,
    FileFormatError,
    TrtExportError,
)
from trt_export.files.pt2 import FOREIGN_CLASS, Program, StoredEngine, read_pt2
from trt_export.files.pte import Delegate, Method, NamedData, Segment, Value, is_pte, read_pte
from trt_export.plan import PlanHeader, read_plan_header


@dataclass(frozen=True)
class BindingInfo:
    """A binding of an engine; a free dimension is -1 in a `.pte`, its name or an expression in a `.pt2`.

    `dtype` and `shape` are None for an engine of torch-tensorrt in a `.pt2`, whose record does not tell them.
    """

    name: str
    role: str
    dtype: str | None
    shape: tuple[int | str, ...] | None
    profile: dict[str, tuple[int, ...]] | None = None


@dataclass(frozen=True)
class EngineInfo:
    """An engine in a file. What the file does not tell is None; `sizes` are in bytes.

    `plan_version` is the version of the builder as the plan's header tells it (of our own header for
    `onnxruntime` plans), `compute_capabilities` the GPUs that it was built for. `provenance` is what the
    builder of trt-export wrote down: builder and versions.
    """

    name: str
    container: str
    plan_format: str
    plan_size: int
    plan_version: str | None
    compute_capabilities: tuple[str, ...] | None
    device: str
    hardware_compatible: bool
    target_platform: str
    bindings: tuple[BindingInfo, ...]
    aliased_io: tuple[tuple[str, str, str], ...]
    provenance: dict[str, Any]


@dataclass(frozen=True)
class DelegateInfo:
    """A delegate; `engine` if it is one of ours, `problem` if its payload cannot be read."""

    backend: str
    offset: int
    size: int
    inline: bool
    compile_specs: tuple[str, ...]
    engine: EngineInfo | None = None
    problem: str | None = None


@dataclass(frozen=True)
class MethodInfo:
    """A method of a `.pte`."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    operators: tuple[str, ...]
    planned_memory: tuple[int, ...]
    delegates: tuple[DelegateInfo, ...]


@dataclass(frozen=True)
class PteInfo:
    """What is in a `.pte`."""

    file: str
    size: int
    program_size: int
    methods: tuple[MethodInfo, ...]
    segments: tuple[Segment, ...]
    named_data: tuple[NamedData, ...]
    kind: str = "pte"

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file's delegates."""
        found = [d.problem for method in self.methods for d in method.delegates]
        return [problem for problem in found if problem]


@dataclass(frozen=True)
class StoredEngineInfo:
    """An engine in a `.pt2`; `problem` if it cannot be read."""

    name: str
    type: str
    engine: EngineInfo | None = None
    problem: str | None = None


@dataclass(frozen=True)
class Pt2Info:
    """What is in a `.pt2`."""

    file: str
    size: int
    weights_size: int
    programs: tuple[Program, ...]
    engines: tuple[StoredEngineInfo, ...]
    kind: str = "pt2"

    @property
    def problems(self) -> list[str]:
        """What is wrong with the file's engines."""
        return [engine.problem for engine in self.engines if engine.problem]


def info(path: str | os.PathLike[str]) -> PteInfo | Pt2Info:
    """Describe a `.pte` or `.pt2` by its content, whatever its name.

    Of a `.pte` only headers and metadata are read. The engines of a `.pt2` are read whole and checked
    against the checksum in their records.

    Raises:
        FileFormatError: neither of the two, or a damaged one, or no file.
    """
    target = Path(path)
    head = read_head(target)
    if is_pte(head):
        return _pte_info(target)
    if head.startswith(b"PK\x03\x04"):
        return _pt2_info(target)
    raise FileFormatError(
        f"{target} is neither a .pte nor a .pt2: it begins with {head[:8]!r}"
        if head
        else f"{target} is empty: neither a .pte nor a .pt2"
    )


def read_head(path: Path) -> bytes:
    """The first bytes of a file, enough to tell its kind.

    Raises:
        FileFormatError: no file, a directory, or not readable.
    """
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from error


def _pte_info(path: Path) -> PteInfo:
    with path.open("rb") as file:
        # Not closed by hand: an error on its way up holds views of it. The last view unmaps it.
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    pte = read_pte(data)
    methods = tuple(_method(method, data) for method in pte.methods)
    return PteInfo(str(path), len(data), pte.program_size, methods, pte.segments, pte.named_data)


def _method(method: Method, data: memoryview) -> MethodInfo:
    return MethodInfo(
        method.name,
        method.inputs,
        method.outputs,
        method.operators,
        method.planned_memory,
        tuple(_delegate(delegate, data) for delegate in method.delegates),
    )


def _delegate(delegate: Delegate, data: memoryview) -> DelegateInfo:
    engine, problem = None, None
    if delegate.backend == BACKEND_ID:
        try:
            engine = _blob_info(data[delegate.offset : delegate.offset + delegate.size])
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


def _blob_info(blob: memoryview) -> EngineInfo:
    header = parse_header(blob, len(blob))
    text = bytes(blob[header.metadata_offset : header.metadata_offset + header.metadata_size])
    metadata = parse_metadata(text, header.magic)
    plan = read_plan_header(blob[header.engine_offset :])
    profiles = _described(metadata.serialized_metadata, blob[header.engine_offset :])
    return EngineInfo(
        name="",
        container=header.magic.decode(),
        **_plan_fields(plan),
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


def _described(text: str, plan: memoryview) -> dict[str, dict[str, tuple[int, ...]] | None]:
    """The profiles of an engine's inputs, if its metadata is ours; the plan is checked against its digest.

    Raises:
        CorruptPlanError: the plan is not the one that the metadata describes.
    """
    try:
        metadata = read_metadata(text, "")
    except EngineRecordError:
        return {}  # Somebody else's, such as a pickle, which is not read.
    digest = metadata.plan.get("sha256")
    if digest is not None and digest != (found := hashlib.sha256(plan).hexdigest()):
        raise CorruptPlanError(
            f"the plan is damaged: sha256 {found}, its metadata says {digest}; lower the program again"
        )
    return {binding.name: _profile(binding) for binding in metadata.inputs}


def _plan_fields(plan: PlanHeader) -> dict[str, Any]:
    return {
        "plan_format": plan.format,
        "plan_size": plan.size,
        "plan_version": plan.version,
        "compute_capabilities": plan.compute_capabilities,
    }


def _pt2_info(path: Path) -> Pt2Info:
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
        BindingInfo(b.name, role, b.dtype, b.shape, _profile(b))
        for role, items in (("input", record.inputs), ("output", record.outputs))
        for b in items
    )
    if stored.plan is None:
        plan = check_plan(record, full.decode_plan())
    else:  # as large as it is, and read by whoever runs it: only its header is looked at here
        plan = check_header(record, stored.plan.start, stored.plan.size)
    return _engine_info(record, plan, bindings)


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
    return _engine_info(record, check_plan(record, full.decode_plan()), bindings)


def _engine_info(
    record: EngineRecord, plan: PlanHeader, bindings: tuple[BindingInfo, ...]
) -> EngineInfo:
    return EngineInfo(
        name=record.name,
        container="record",
        **_plan_fields(plan),
        device=record.device,
        hardware_compatible=record.hardware_compatible,
        target_platform=record.target_platform,
        bindings=bindings,
        aliased_io=tuple((a.output, a.input, a.kind) for a in record.aliased_io),
        provenance=record.provenance,
    )


def _profile(binding: Binding) -> dict[str, tuple[int, ...]] | None:
    sizes = {"min": binding.minimum, "opt": binding.optimum, "max": binding.maximum}
    return {key: value for key, value in sizes.items() if value is not None} or None
