"""The payload of the delegate `TrtRuntimeBackend`: a header; its plan is in the named data of the file.

Our own format, described in `docs/delegate.md`. Little-endian, `<4sHHIIQ32s8x`, then JSON:

    magic            `TRTN`
    version          1; a reader refuses any other
    flags            0; a reader refuses any that it does not know
    header size      64 here: where the JSON begins. Fields are added in front of it; readers skip those they don't know
    metadata size    of the JSON, which ends the payload
    plan size, plan sha256

The plan's key in the named data is `trt-plan-sha256-` and the sha256 in hex. The JSON has `record`, the engine's record
by field name (`docs/engine-record.md`), and `inputs` and `outputs`, the names of its bindings in the order of the
delegate's arguments.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.engines.mapping import record_mapping, record_of_mapping
from trt_export.engines.metadata import Binding
from trt_export.engines.record import EngineRecord
from trt_export.errors import BlobError
from trt_export.formats import key_of
from trt_export.json_text import load_json

HEADER = struct.Struct("<4sHHIIQ32s8x")
MAGIC = b"TRTN"
VERSION = 1


@dataclass(frozen=True)
class DelegateHeader:
    """A payload in parts; `inputs` and `outputs` are in the order of the delegate's arguments."""

    plan_size: int
    plan_sha256: str
    record: EngineRecord
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]

    @property
    def plan_key(self) -> str:
        """Under which the plan is in the named data."""
        return key_of(self.plan_sha256)

    @property
    def plan_format(self) -> str:
        """As the record has it."""
        return str(self.record.plan.get("format", "unknown"))


def build_payload(header: DelegateHeader) -> bytes:
    """Put a payload together; equal arguments give equal bytes."""
    metadata = json.dumps(
        {
            "record": record_mapping(header.record),
            "inputs": [binding.name for binding in header.inputs],
            "outputs": [binding.name for binding in header.outputs],
        },
        separators=(",", ":"),
    ).encode()
    digest = bytes.fromhex(header.plan_sha256)
    sizes = (HEADER.size, len(metadata), header.plan_size)
    return HEADER.pack(MAGIC, VERSION, 0, *sizes, digest) + metadata


def parse_payload(payload: bytes | memoryview) -> DelegateHeader:
    """Read a payload.

    Raises:
        BlobError: not a payload, cut off, of another version, or without a field.
        EngineRecordError: the record in it is no good.
    """
    size = len(payload)
    if size < HEADER.size:
        raise BlobError(f"a delegate's header has {HEADER.size} bytes, this one has {size} in all")
    magic, version, flags, header_size, metadata_size, plan_size, digest = HEADER.unpack(
        payload[: HEADER.size]
    )
    if magic != MAGIC:
        raise BlobError(f"a delegate's header begins with {MAGIC!r}, found {magic!r}")
    if (version, flags) != (VERSION, 0):
        raise BlobError(
            f"expected a delegate's header of version {VERSION} without flags, found version {version} and flags"
            f" {flags}: install a trt-export that knows it (pip install -U trt-export)"
        )
    if header_size < HEADER.size or header_size + metadata_size != size:
        raise BlobError(
            f"expected metadata behind at least {HEADER.size} bytes that end the payload of {size}, found"
            f" {metadata_size} bytes at byte {header_size}: it is cut off or damaged"
        )
    try:
        data = load_json(bytes(payload[header_size:]))
    except ValueError as error:
        raise BlobError(f"the metadata of a delegate is not JSON: {error}") from error
    record = record_of_mapping(_field(data, "record", dict))
    return DelegateHeader(
        plan_size,
        digest.hex(),
        record,
        _ordered(record.inputs, _field(data, "inputs", list), "inputs"),
        _ordered(record.outputs, _field(data, "outputs", list), "outputs"),
    )


def check_reference(header: DelegateHeader) -> None:
    """Check that the plan that a payload refers to is that of its record.

    Raises:
        BlobError: it is another one, or the record names none.
    """
    described = (header.record.plan.get("size"), header.record.plan.get("sha256"))
    if described != (header.plan_size, header.plan_sha256):
        raise BlobError(
            f"expected the plan of the record, {described[0]} bytes with the sha256 {described[1]}, found a reference"
            f" to one of {header.plan_size} bytes with {header.plan_sha256}: it is damaged; lower the program again"
        )


def _ordered(
    bindings: Sequence[Binding], names: Sequence[object], side: str
) -> tuple[Binding, ...]:
    known = {binding.name: binding for binding in bindings}
    # A name twice is one too few of the others; a number is no name.
    if not all(isinstance(name, str) for name in names) or sorted(map(str, names)) != sorted(known):
        raise BlobError(
            f"the {side} of a delegate must be those of its record, {list(known)}, found {names!r:.80}"
        )
    return tuple(known[str(name)] for name in names)


def _field(data: object, key: str, kind: type) -> Any:
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, kind):
        raise BlobError(
            f"{key!r} in a delegate's metadata must be of type {kind.__name__}, found {value!r:.80}"
        )
    return value
