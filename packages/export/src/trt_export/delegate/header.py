"""The payload of the delegate `TrtRuntimeBackend`: a header; its plan is in the named data of the file.

Our own format, described in `docs/delegate.md`. Little-endian, `<4sHHIIQ32s8x`, then JSON:

    magic            `TRTN`
    version          1; a reader refuses any other
    flags            0; a reader refuses any that it does not know
    header size      64 here: where the JSON begins. Fields are added in front of it; readers skip those they don't know
    metadata size    of the JSON, which ends the payload
    plan size, plan sha256

The plan's key in the named data is `trt-plan-sha256-` and the sha256 in hex. The JSON has `record`, the engine's record by
field name (`docs/engine-record.md`), and `inputs` and `outputs`, the names of its bindings in the order of the
delegate's arguments.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.engines.metadata import Binding
from trt_export.engines.record import EngineRecord, record_mapping
from trt_export.errors import BlobError
from trt_export.passes.plan_store import StoredPlan

HEADER = struct.Struct("<4sHHIIQ32s8x")
MAGIC = b"TRTN"
VERSION = 1


@dataclass(frozen=True)
class DelegateHeader:
    """A header in parts. `plan_sha256` is in hex, `record` the record by field name."""

    plan_size: int
    plan_sha256: str
    record: dict[str, Any]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def build_header(
    record: EngineRecord, inputs: Sequence[Binding], outputs: Sequence[Binding], plan: StoredPlan
) -> bytes:
    """Put a payload together; equal arguments give equal bytes."""
    metadata = json.dumps(
        {
            "record": record_mapping(record),
            "inputs": [binding.name for binding in inputs],
            "outputs": [binding.name for binding in outputs],
        },
        separators=(",", ":"),
    ).encode()
    digest = bytes.fromhex(plan.sha256)
    size = plan.data.nbytes
    return HEADER.pack(MAGIC, VERSION, 0, HEADER.size, len(metadata), size, digest) + metadata


def parse_header(payload: bytes | memoryview) -> DelegateHeader:
    """Read a payload.

    Raises:
        BlobError: not a header, cut off, of another version, or without a field.
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
        data = json.loads(bytes(payload[header_size:]).decode())
    except (ValueError, RecursionError) as error:
        raise BlobError(f"the metadata of a delegate is not JSON: {error}") from error
    record = _field(data, "record", dict)
    inputs, outputs = (tuple(_field(data, key, list)) for key in ("inputs", "outputs"))
    return DelegateHeader(plan_size, digest.hex(), record, inputs, outputs)


def _field(data: object, key: str, kind: type) -> Any:
    value = data.get(key) if isinstance(data, dict) else None
    if not isinstance(value, kind):
        raise BlobError(
            f"{key!r} in a delegate's metadata must be of type {kind.__name__}, found {value!r:.80}"
        )
    return value
