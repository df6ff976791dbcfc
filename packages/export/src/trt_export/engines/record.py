"""The record of an engine: 13 strings, and the JSON metadata among them.

The format is that of `docs/engine-record.md`; slots, order and ABI number are those of the record in use in
the field (torch-tensorrt 2.14). This module is the only one that knows slots and separators.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.engines.metadata import REBUILD, Binding, Metadata, parse_metadata
from trt_export.errors import CorruptPlanError, EngineRecordError, TruncatedPlanError
from trt_export.plan import PlanHeader, read_plan_header

ABI = "10"
FIELDS = (
    "ABI", "name", "device", "engine", "input names", "output names", "hardware-compatible",
    "metadata", "target platform", "requires output allocator", "resource allocation strategy",
    "requires native multi-device", "aliased I/O",
)  # fmt: skip
ENGINE_SLOT = FIELDS.index("engine")
_PIECE = 1 << 22  # characters of base64, a multiple of 4


@dataclass(frozen=True)
class Alias:
    """An output that is written into the memory of an input; `kind` is such as `kv_cache_update`."""

    output: str
    input: str
    kind: str


@dataclass(frozen=True)
class EngineRecord:
    """All that an engine says of itself, except the plan's bytes.

    `device_index` is -1 for the CPU. `plan` and `provenance` are the mappings of the same name in the
    metadata JSON, whose text is `metadata`.
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


def parse_record(state: Sequence[object]) -> EngineRecord:
    """Read a record of 13 strings; the engine slot is not looked at.

    Raises:
        EngineRecordError: wrong length, ABI, separator, flag or metadata. The length and the ABI are
            checked before any slot is read.
    """
    if len(state) != len(FIELDS):
        raise EngineRecordError(
            f"an engine record of ABI {ABI} has {len(FIELDS)} fields, this one has {len(state)}"
            f" (ABI {state[0] if state else 'missing'}): it was made by another version; {REBUILD}"
        )
    for field, value in zip(FIELDS, state, strict=True):
        if not isinstance(value, str) and field != "engine":
            raise EngineRecordError(
                f"field {field!r} of an engine record must be a string, not {type(value).__name__}"
            )
    slots = dict(zip(FIELDS, without_plan(state), strict=True))
    if slots["ABI"] != ABI:
        raise EngineRecordError(
            f"expected an engine record of ABI {ABI}, found {slots['ABI']!r}; {REBUILD}"
        )
    metadata = parse_metadata(slots["metadata"], slots["name"])
    _check_names("inputs", slots["input names"], metadata.inputs)
    _check_names("outputs", slots["output names"], metadata.outputs)
    return EngineRecord(
        name=slots["name"],
        device_index=_device_index(slots["device"]),
        inputs=metadata.inputs,
        outputs=metadata.outputs,
        hardware_compatible=_flag(slots, "hardware-compatible"),
        target_platform=slots["target platform"],
        requires_output_allocator=_flag(slots, "requires output allocator"),
        allocation_strategy="dynamic" if _flag(slots, "resource allocation strategy") else "static",
        requires_native_multidevice=_flag(slots, "requires native multi-device"),
        aliased_io=_aliases(slots["aliased I/O"], metadata),
        metadata=slots["metadata"],
        plan=metadata.plan,
        provenance=metadata.provenance,
    )


def without_plan(state: Sequence[object]) -> tuple[str, ...]:
    """The record with an empty engine slot."""
    return tuple("" if index == ENGINE_SLOT else str(value) for index, value in enumerate(state))


def decode_plan(state: Sequence[object]) -> bytearray:
    """The plan's bytes out of a record's engine slot.

    Raises:
        CorruptPlanError: the slot is not padded base64.
    """
    text = state[ENGINE_SLOT]
    if not isinstance(text, str):
        raise CorruptPlanError(f"the engine slot must be base64 text, not {type(text).__name__}")
    # By pieces, into the result: base64.b64decode makes two more copies of a long text.
    plan = bytearray(max(0, len(text) // 4 * 3 - text[-2:].count("=")))
    position = 0
    try:
        if len(text) % 4:
            raise ValueError(f"{len(text)} characters are no multiple of 4")
        for start in range(0, len(text), _PIECE):
            piece = base64.b64decode(text[start : start + _PIECE], validate=True)
            plan[position : position + len(piece)] = piece
            position += len(piece)
    except ValueError as error:
        raise CorruptPlanError(
            f"the engine slot of the record is not base64: {error}; {REBUILD}"
        ) from error
    if position != len(plan):
        raise CorruptPlanError(f"the engine slot of the record is not base64; {REBUILD}")
    return plan


def check_plan(record: EngineRecord, plan: bytes | bytearray | memoryview) -> PlanHeader:
    """Check a plan against the record that describes it; reads all of it if the record has a digest.

    Raises:
        UnknownPlanFormatError, TruncatedPlanError, CorruptPlanError: what is wrong with the plan.
    """
    size = memoryview(plan).nbytes
    if not size:
        raise TruncatedPlanError(f"engine {record.name!r} has an empty plan; build it again")
    header = read_plan_header(plan)
    described = (record.plan.get("format"), record.plan.get("size"))
    if described[0] not in (None, header.format):
        raise CorruptPlanError(
            f"the record of engine {record.name!r} describes a {described[0]} plan, its plan is a {header.format} one"
        )
    if described[1] not in (None, size):
        raise TruncatedPlanError(
            f"the plan of engine {record.name!r} has {size} bytes, its record says {described[1]}; build it again"
        )
    digest = record.plan.get("sha256")
    if digest is not None and digest != (found := hashlib.sha256(plan).hexdigest()):
        raise CorruptPlanError(
            f"the plan of engine {record.name!r} is damaged: sha256 {found}, its record says {digest};"
            " build it again"
        )
    return header


def _flag(slots: dict[str, str], field: str) -> bool:
    if slots[field] not in ("0", "1"):
        raise EngineRecordError(
            f"field {field!r} of engine {slots['name']!r} must be 0 or 1, found {slots[field]!r}"
        )
    return slots[field] == "1"


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


def _check_names(role: str, slot: str, bindings: tuple[Binding, ...]) -> None:
    expected = slot.split("%") if slot else []
    found = [binding.name for binding in bindings]
    if found != expected:
        raise EngineRecordError(
            f"the record names the {role} {expected}, its metadata names {found}; {REBUILD}"
        )


def _aliases(text: str, metadata: Metadata) -> tuple[Alias, ...]:
    aliases = []
    for part in text.split("%") if text else []:
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
