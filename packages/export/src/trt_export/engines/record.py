"""What the record of an engine says, in fields with types.

Our own engines have JSON metadata in it (docs/engine-record.md). Those of torch-tensorrt have a pickle there, which
is never loaded: shapes and dtypes of their bindings come from the graph that calls them, and go along as a string of
their own while a program is lowered.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.engines.metadata import (
    REBUILD,
    Binding,
    Metadata,
    parse_bindings,
    parse_metadata,
)
from trt_export.engines.rules import check_aliases, check_name, check_target_platform
from trt_export.engines.slots import FIELDS, MetadataRecord, metadata_of_strings
from trt_export.errors import CorruptPlanError, EngineRecordError, TruncatedPlanError
from trt_export.plan import PlanHeader, read_plan_header

_CPU = "-1%0%0%-1%cpu"
_GPU = "[0-9]{1,4}%[0-9]{1,4}%[0-9]{1,4}%0%[^%]*"


@dataclass(frozen=True)
class Alias:
    """An output that is written into the memory of an input; `kind` is such as `kv_cache_update`."""

    output: str
    input: str
    kind: str


@dataclass(frozen=True)
class EngineRecord:
    """All that an engine says of itself, except the plan's bytes.

    `device_index` is -1 for the CPU. `metadata` is the text of its metadata slot, `plan` and `provenance` are the
    mappings of the same name in it, empty for an engine of torch-tensorrt.
    """

    name: str
    device_index: int
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    hardware_compatible: bool
    target_platform: str
    requires_output_allocator: bool
    allocation_strategy: str
    requires_native_multidevice: bool
    aliased_io: tuple[Alias, ...]
    metadata: str
    plan: dict[str, Any]
    provenance: dict[str, Any]

    @property
    def device(self) -> str:
        """The device as torch writes it: `cpu` or `cuda:N`."""
        return "cpu" if self.device_index < 0 else f"cuda:{self.device_index}"


def parse_record(record: MetadataRecord) -> EngineRecord:
    """Read the record of one of our own engines.

    Raises:
        EngineRecordError: wrong separator, flag or metadata, or something that trt-runtime refuses as well.
    """
    parsed = _record(record, parse_metadata(record["metadata"], record["name"]))
    check_record(parsed)
    if not parsed.plan:
        raise EngineRecordError(
            f"the record of engine {parsed.name!r} does not say which plan is its own; {REBUILD}"
        )
    if record["device"] != _CPU and not re.fullmatch(_GPU, record["device"]):
        raise EngineRecordError(
            f"expected a device {_CPU!r} or `id%major%minor%0%name`, found {record['device']!r:.80}"
        )
    return parsed


def check_record(record: EngineRecord) -> None:
    """Check what trt-runtime checks of an engine of its own, besides the bindings (`parse_metadata`).

    Raises:
        EngineRecordError: name, target platform or aliases that it refuses.
    """
    check_name(record.name)
    check_target_platform(record.target_platform)
    aliases = [(alias.output, alias.input, alias.kind) for alias in record.aliased_io]
    check_aliases(aliases, record.inputs, record.outputs)


def parse_foreign_record(
    record: MetadataRecord, inputs: Sequence[Binding], outputs: Sequence[Binding]
) -> EngineRecord:
    """Read the record of an engine of torch-tensorrt.

    Args:
        record: the record.
        inputs: the bindings as the graph that calls it has them.
        outputs: the same of its outputs.

    Raises:
        EngineRecordError: wrong separator or flag, or other names.
    """
    return _record(record, Metadata(tuple(inputs), tuple(outputs), {}, {}))


def record_strings(record: MetadataRecord, foreign: EngineRecord | None = None) -> tuple[str, ...]:
    """A record as strings that an op can carry, and `record_of_strings` reads.

    Args:
        record: the record.
        foreign: what was made of it, if it is that of an engine of torch-tensorrt.
    """
    if foreign is None:
        return record.strings()
    bindings = {
        role: [{"name": b.name, "dtype": b.dtype, "shape": list(b.shape)} for b in items]
        for role, items in (("inputs", foreign.inputs), ("outputs", foreign.outputs))
    }
    return (*record.strings(), json.dumps(bindings))


def record_of_strings(strings: Sequence[str]) -> EngineRecord:
    """What `record_strings` returned, read back.

    Raises:
        EngineRecordError: as `parse_record` and `parse_foreign_record`.
    """
    record = metadata_of_strings(strings[: len(FIELDS)])
    if len(strings) <= len(FIELDS):
        return parse_record(record)
    return parse_foreign_record(record, *parse_bindings(strings[len(FIELDS)]))


def binding_names(record: MetadataRecord) -> tuple[list[str], list[str]]:
    """The names of an engine's inputs and of its outputs."""
    return _split(record["input names"]), _split(record["output names"])


def _record(record: MetadataRecord, metadata: Metadata) -> EngineRecord:
    inputs, outputs = binding_names(record)
    _check_names("inputs", inputs, metadata.inputs)
    _check_names("outputs", outputs, metadata.outputs)
    return EngineRecord(
        name=record["name"],
        device_index=_device_index(record["device"]),
        inputs=metadata.inputs,
        outputs=metadata.outputs,
        hardware_compatible=_flag(record, "hardware-compatible"),
        target_platform=record["target platform"],
        requires_output_allocator=_flag(record, "requires output allocator"),
        allocation_strategy="dynamic"
        if _flag(record, "resource allocation strategy")
        else "static",
        requires_native_multidevice=_flag(record, "requires native multi-device"),
        aliased_io=_aliases(record["aliased I/O"], metadata),
        metadata=record["metadata"],
        plan=metadata.plan,
        provenance=metadata.provenance,
    )


def check_plan(
    record: EngineRecord, plan: bytes | bytearray | memoryview, sha256: str | None = None
) -> PlanHeader:
    """Check a plan against the record that describes it.

    Args:
        record: the record.
        plan: the plan's bytes.
        sha256: theirs, in hex; without it all of the plan is read, if the record has one to compare with.

    Raises:
        UnknownPlanFormatError, TruncatedPlanError, CorruptPlanError: what is wrong with the plan.
    """
    header = check_header(record, plan, memoryview(plan).nbytes)
    digest = record.plan.get("sha256")
    if digest is not None and digest != (found := sha256 or hashlib.sha256(plan).hexdigest()):
        raise CorruptPlanError(
            f"the plan of engine {record.name!r} is damaged: sha256 {found}, its record says {digest};"
            " build it again"
        )
    return header


def check_header(
    record: EngineRecord, start: bytes | bytearray | memoryview, size: int
) -> PlanHeader:
    """Check the ``start`` of a plan (`read_plan_header` says how much) and its size against its record.

    Raises:
        UnknownPlanFormatError, TruncatedPlanError, CorruptPlanError: as `check_plan`.
    """
    if not size:
        raise TruncatedPlanError(f"engine {record.name!r} has an empty plan; build it again")
    header = read_plan_header(start, size)
    described = (record.plan.get("format"), record.plan.get("size"))
    if described[0] not in (None, header.format):
        raise CorruptPlanError(
            f"the record of engine {record.name!r} describes a plan of format {described[0]}, found one of format"
            f" {header.format}; build it again"
        )
    if described[1] not in (None, size):
        raise TruncatedPlanError(
            f"the plan of engine {record.name!r} has {size} bytes, its record says {described[1]}; build it again"
        )
    return header


def _flag(record: MetadataRecord, field: str) -> bool:
    if record[field] not in ("0", "1"):
        raise EngineRecordError(
            f"field {field!r} of engine {record['name']!r} must be 0 or 1, found {record[field]!r}"
        )
    return record[field] == "1"


def _split(slot: str) -> list[str]:
    return slot.split("%") if slot else []


def _device_index(text: str) -> int:
    index, *rest = text.split("%")
    kind = rest[2] if len(rest) == 4 else None
    if kind == "-1" and index == "-1":
        return -1
    if kind == "0" and re.fullmatch(r"[0-9]{1,4}", index):
        return int(index)
    raise EngineRecordError(
        f"expected a device `id%major%minor%type%name` with type 0 (GPU) or -1 (CPU), found {text!r}"
    )


def _check_names(role: str, expected: list[str], bindings: tuple[Binding, ...]) -> None:
    found = [binding.name for binding in bindings]
    if found != expected:
        raise EngineRecordError(
            f"the record names the {role} {expected}, its metadata names {found}; {REBUILD}"
        )


def _aliases(text: str, metadata: Metadata) -> tuple[Alias, ...]:
    aliases = []
    for part in _split(text):
        fields = part.split("@")
        if len(fields) != 3:
            raise EngineRecordError(
                f"expected aliased I/O as `output@input@kind`, found {part!r:.80}"
            )
        alias = Alias(*fields)
        _known(alias.output, metadata.outputs, "output")
        _known(alias.input, metadata.inputs, "input")
        aliases.append(alias)
    return tuple(aliases)


def _known(name: str, bindings: tuple[Binding, ...], role: str) -> None:
    names = [binding.name for binding in bindings]
    if name not in names:
        raise EngineRecordError(
            f"aliased I/O names the {role} {name!r}; the engine's {role}s are {names}"
        )
