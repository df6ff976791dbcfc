"""The record of an engine: 13 strings, and the JSON metadata among them.

The format is that of `docs/engine-record.md`; slots, order and ABI number are those of the record in use in
the field (torch-tensorrt 2.14). This module is the only one that knows slots and separators.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.errors import CorruptPlanError, EngineRecordError, TruncatedPlanError
from trt_export.plan import PlanHeader, read_plan_header

ABI = "10"
FIELDS = (
    "ABI", "name", "device", "engine", "input names", "output names", "hardware-compatible",
    "metadata", "target platform", "requires output allocator", "resource allocation strategy",
    "requires native multi-device", "aliased I/O",
)  # fmt: skip
ENGINE_SLOT = FIELDS.index("engine")
DTYPES = frozenset(
    "float32 float16 bfloat16 float64 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905
)

_REBUILD = "build the engine again with `trt-export build` of this version"


@dataclass(frozen=True)
class Binding:
    """One input or output of an engine.

    `dtype` is the torch name without `torch.`. A dimension in `shape` is an int (static) or text: the name
    `i<input>d<dim>` or an expression over such names. `minimum`, `optimum` and `maximum` are the sizes of
    an input's profile, of the rank of `shape`; they are None for an output.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    minimum: tuple[int, ...] | None = None
    optimum: tuple[int, ...] | None = None
    maximum: tuple[int, ...] | None = None


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
            f" (ABI {state[0] if state else 'missing'}): it was made by another version; {_REBUILD}"
        )
    for field, value in zip(FIELDS, state, strict=True):
        if not isinstance(value, str) and field != "engine":
            raise EngineRecordError(
                f"field {field!r} of an engine record must be a string, not {type(value).__name__}"
            )
    slots = dict(zip(FIELDS, without_plan(state), strict=True))
    if slots["ABI"] != ABI:
        raise EngineRecordError(
            f"expected an engine record of ABI {ABI}, found {slots['ABI']!r}; {_REBUILD}"
        )
    metadata = _metadata(slots["metadata"], slots["name"])
    inputs = _bindings(metadata, "inputs", slots["input names"])
    outputs = _bindings(metadata, "outputs", slots["output names"])
    if not outputs:
        raise EngineRecordError(f"engine {slots['name']!r} has no outputs; {_REBUILD}")
    return EngineRecord(
        name=slots["name"],
        device_index=_device_index(slots["device"]),
        inputs=inputs,
        outputs=outputs,
        hardware_compatible=_flag(slots, "hardware-compatible"),
        target_platform=slots["target platform"],
        requires_output_allocator=_flag(slots, "requires output allocator"),
        allocation_strategy="dynamic" if _flag(slots, "resource allocation strategy") else "static",
        requires_native_multidevice=_flag(slots, "requires native multi-device"),
        aliased_io=_aliases(slots["aliased I/O"], inputs, outputs),
        metadata=slots["metadata"],
        plan=_mapping(metadata, "plan"),
        provenance=_mapping(metadata, "provenance"),
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
    try:
        return bytearray(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError) as error:
        raise CorruptPlanError(
            f"the engine slot of the record is not base64: {error}; {_REBUILD}"
        ) from error


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


def parse_provenance(metadata: str) -> dict[str, Any]:
    """What the metadata says of the builder; empty if it is not ours, such as a pickle, which is not read."""
    try:
        return _mapping(_metadata(metadata, ""), "provenance")
    except EngineRecordError:
        return {}


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


def _metadata(text: str, engine: str) -> dict[str, Any]:
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineRecordError(
            f"the metadata of engine {engine!r} is not JSON ({error}); engines of torch-tensorrt hold a"
            f" pickle there, which is never loaded: {_REBUILD}"
        ) from error
    if not isinstance(metadata, dict) or metadata.get("schema") != 1:
        found = metadata.get("schema") if isinstance(metadata, dict) else type(metadata).__name__
        raise EngineRecordError(
            f"expected metadata of schema 1 in engine {engine!r}, found {found!r}:"
            " install a trt-export that knows it"
        )
    return metadata


def _mapping(metadata: dict[str, Any], key: str) -> dict[str, Any]:
    value = metadata.get(key, {})
    if not isinstance(value, dict):
        raise EngineRecordError(
            f"{key!r} in an engine's metadata must be an object, found {value!r:.80}"
        )
    return value


def _bindings(metadata: dict[str, Any], key: str, names: str) -> tuple[Binding, ...]:
    """The bindings of the metadata, which must be those that the record's own slot names."""
    entries = metadata.get(key)
    if not isinstance(entries, list):
        raise EngineRecordError(
            f"{key!r} in an engine's metadata must be a list, found {entries!r:.80}"
        )
    bindings = tuple(_binding(entry) for entry in entries)
    expected = names.split("%") if names else []
    found = [binding.name for binding in bindings]
    if found != expected:
        raise EngineRecordError(
            f"the record names the {key} {expected}, its metadata names {found}; {_REBUILD}"
        )
    return bindings


def _binding(entry: object) -> Binding:
    if not isinstance(entry, dict):
        raise EngineRecordError(f"a binding must be an object, found {entry!r:.80}")
    name, dtype, shape = entry.get("name"), entry.get("dtype"), entry.get("shape")
    if not isinstance(name, str) or not name or set(name) & set("%@"):
        raise EngineRecordError(
            f"a binding's name must be text without % and @, found {name!r:.80}"
        )
    if dtype not in DTYPES:
        raise EngineRecordError(
            f"binding {name!r} has dtype {dtype!r:.40}; known are {sorted(DTYPES)}"
        )
    if not isinstance(shape, list) or not all(
        isinstance(dim, str) or _is_size(dim) for dim in shape
    ):
        raise EngineRecordError(
            f"the shape of binding {name!r} must be a list of sizes and expressions, found {shape!r:.80}"
        )
    profile = {key: _sizes(entry, key, len(shape), name) for key in ("min", "opt", "max")}
    return Binding(name, dtype, tuple(shape), profile["min"], profile["opt"], profile["max"])


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _sizes(entry: dict[str, Any], key: str, rank: int, name: str) -> tuple[int, ...] | None:
    sizes = entry.get(key)
    if sizes is None:
        return None
    if not isinstance(sizes, list) or len(sizes) != rank or not all(map(_is_size, sizes)):
        raise EngineRecordError(
            f"{key!r} of binding {name!r} must be {rank} sizes, found {sizes!r:.80}"
        )
    return tuple(sizes)


def _aliases(
    text: str, inputs: tuple[Binding, ...], outputs: tuple[Binding, ...]
) -> tuple[Alias, ...]:
    aliases = []
    for part in text.split("%") if text else []:
        fields = part.split("@")
        if len(fields) != 3:
            raise EngineRecordError(
                f"expected aliased I/O as `output@input@kind`, found {part!r:.80}"
            )
        alias = Alias(*fields)
        _known(alias.output, outputs, "output")
        _known(alias.input, inputs, "input")
        aliases.append(alias)
    return tuple(aliases)


def _known(name: str, bindings: tuple[Binding, ...], role: str) -> None:
    names = [binding.name for binding in bindings]
    if name not in names:
        raise EngineRecordError(
            f"aliased I/O names the {role} {name!r}; the engine's {role}s are {names}"
        )
