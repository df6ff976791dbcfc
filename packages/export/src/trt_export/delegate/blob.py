"""The payload of a TensorRT delegate: header, JSON metadata, plan.

The layout is the inline blob in use in the field, read by the ExecuTorch backend of torch-tensorrt
(`TensorRTBlobHeader.cpp` there). Little-endian, 32 bytes of header `<4sIIIQ8s`:

    magic            `TR01`; `TR02` if outputs alias inputs, so that a reader which does not know of
                     aliasing refuses the blob instead of computing wrong results
    metadata offset, metadata size
    engine offset    a multiple of 16
    engine size
    reserved         the first byte is 1, the rest are 0

That reader walks the JSON from front to back, so the order of the keys is part of the format. A dimension
that is not known ahead of time is -1.
"""

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trt_export.engines.mapping import record_of_mapping
from trt_export.engines.metadata import metadata_object
from trt_export.engines.record import EngineRecord
from trt_export.errors import BlobError, EngineRecordError
from trt_export.json_text import load_json

BACKEND_ID = "TensorRTBackend"
HEADER = struct.Struct("<4sIIIQ8s")
MAGIC = b"TR01"
MAGIC_ALIASED = b"TR02"
ALIGNMENT = 16
_RESERVED = b"\x01" + bytes(7)
# What trt-runtime takes: ExecuTorch's tensors have no more dimensions, a record no larger number of a GPU.
_MAX_RANK = 16
_MAX_DEVICE = 9999


@dataclass(frozen=True)
class BlobBinding:
    """A binding in the order of the delegate's arguments: inputs, then outputs."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    is_input: bool


@dataclass(frozen=True)
class BlobAlias:
    """An output that shares the memory of an input."""

    output: str
    input: str
    kind: str


@dataclass(frozen=True)
class BlobMetadata:
    """The JSON part of a blob. `device_id` is -1 for the CPU."""

    io_bindings: tuple[BlobBinding, ...]
    aliased_io: tuple[BlobAlias, ...] = ()
    hardware_compatible: bool = False
    device_id: int = 0
    serialized_metadata: str = ""
    target_platform: str = ""

    def to_json(self) -> bytes:
        """Compact JSON, keys in the order of the format; equal metadata gives equal bytes."""
        data: dict[str, Any] = {
            "io_bindings": [
                {"name": b.name, "dtype": b.dtype, "shape": list(b.shape), "is_input": b.is_input}
                for b in self.io_bindings
            ]
        }
        if self.aliased_io:
            data["aliased_io"] = [
                {"output": a.output, "input": a.input, "kind": a.kind} for a in self.aliased_io
            ]
        data["hardware_compatible"] = self.hardware_compatible
        data["device_id"] = self.device_id
        data["serialized_metadata"] = self.serialized_metadata
        data["target_platform"] = self.target_platform
        return json.dumps(data, separators=(",", ":")).encode()


@dataclass(frozen=True)
class BlobHeader:
    """Where the parts of a blob are, in bytes from its start."""

    magic: bytes
    metadata_offset: int
    metadata_size: int
    engine_offset: int
    engine_size: int


def build_blob(metadata: BlobMetadata, plan: memoryview | bytes) -> bytes:
    """Put a blob together: one allocation, one copy of the plan.

    Args:
        metadata: what goes into the JSON part.
        plan: the plan's bytes, one-dimensional.
    """
    text = metadata.to_json()
    engine_offset = -(-(HEADER.size + len(text)) // ALIGNMENT) * ALIGNMENT
    header = HEADER.pack(
        MAGIC_ALIASED if metadata.aliased_io else MAGIC,
        HEADER.size,
        len(text),
        engine_offset,
        len(plan),
        _RESERVED,
    )
    return b"".join((header, text, bytes(engine_offset - HEADER.size - len(text)), plan))


def parse_header(blob: bytes | memoryview, size: int) -> BlobHeader:
    """Read and check a blob's header.

    Args:
        blob: at least the first 32 bytes of it.
        size: the size of the whole blob.

    Raises:
        BlobError: not a blob, cut off, or parts that overlap or leave it.
    """
    if size < HEADER.size or len(blob) < HEADER.size:
        raise BlobError(
            f"an engine blob has a header of {HEADER.size} bytes, this one has {size} bytes in all"
        )
    header = BlobHeader(*HEADER.unpack(blob[: HEADER.size])[:5])
    if header.magic not in (MAGIC, MAGIC_ALIASED):
        raise BlobError(
            f"an engine blob begins with {MAGIC!r} or {MAGIC_ALIASED!r}, found {header.magic!r}"
        )
    metadata_end = header.metadata_offset + header.metadata_size
    engine_end = header.engine_offset + header.engine_size
    if header.metadata_offset < HEADER.size:
        raise BlobError(
            f"the blob's metadata begins inside its header, at byte {header.metadata_offset}"
        )
    if header.engine_offset % ALIGNMENT:
        raise BlobError(
            f"the blob's engine offset {header.engine_offset} is not a multiple of {ALIGNMENT}"
        )
    if metadata_end > header.engine_offset:
        raise BlobError(
            f"the blob's metadata ends at byte {metadata_end}, behind its engine's start at {header.engine_offset}"
        )
    if engine_end > size:
        raise BlobError(
            f"the blob's engine ends at byte {engine_end}, the blob at {size}: it is cut off"
        )
    if engine_end < size:
        raise BlobError(f"the blob's engine ends at byte {engine_end}, the blob goes on to {size}")
    return header


def parse_metadata(text: bytes | memoryview, magic: bytes) -> BlobMetadata:
    """Read a blob's JSON part.

    Raises:
        BlobError: not JSON, or fields that are missing or of the wrong type, or aliasing that
            contradicts the magic.
    """
    try:
        data = load_json(bytes(text))
    except ValueError as error:
        raise BlobError(f"the blob's metadata is not JSON: {error}") from error
    if not isinstance(data, dict):
        raise BlobError(f"the blob's metadata must be an object, found {type(data).__name__}")
    bindings = tuple(_binding(entry) for entry in _list(data, "io_bindings"))
    for before, after in pairwise(bindings):
        if after.is_input and not before.is_input:
            raise BlobError(
                f"expected all inputs before the outputs in a blob, found input {after.name!r} behind output"
                f" {before.name!r}"
            )
    # Writers in the field add an empty list to TR01; absent and empty say the same.
    aliases = tuple(_alias(entry, bindings) for entry in _list(data, "aliased_io", []))
    if bool(aliases) != (magic == MAGIC_ALIASED):
        raise BlobError(
            f"a blob with magic {magic!r} must {'' if not aliases else 'not '}have aliased_io, "
            f"found {len(aliases)}"
        )
    device_id = _field(data, "device_id", int, 0)
    if not -1 <= device_id <= _MAX_DEVICE:
        raise BlobError(
            f"expected -1 or the number of a GPU as a blob's device_id, found {device_id:.10g}"
        )
    return BlobMetadata(
        io_bindings=bindings,
        aliased_io=aliases,
        hardware_compatible=_field(data, "hardware_compatible", bool, False),
        device_id=device_id,
        serialized_metadata=_field(data, "serialized_metadata", str, ""),
        target_platform=_field(data, "target_platform", str, ""),
    )


def parse_blob(blob: bytes | memoryview) -> tuple[BlobMetadata, memoryview]:
    """Metadata and plan of a whole blob; the plan is a view, not a copy.

    Raises:
        BlobError: as `parse_header` and `parse_metadata`.
    """
    view = memoryview(blob)
    header = parse_header(view, len(view))
    text = view[header.metadata_offset : header.metadata_offset + header.metadata_size]
    return parse_metadata(text, header.magic), view[header.engine_offset :]


def inline_record(metadata: BlobMetadata) -> EngineRecord:
    """Return the record of one of our own engines in a blob, which has no field for the engine's name.

    Raises:
        EngineRecordError: the record is no good, or not that of the blob's bindings.
    """
    own = metadata_object(metadata.serialized_metadata, "delegate")
    record = record_of_mapping(
        {
            **own,
            "name": "delegate",
            "device": "cpu" if metadata.device_id < 0 else f"cuda:{metadata.device_id}",
            "aliased_io": [vars(alias) for alias in metadata.aliased_io],
            "hardware_compatible": metadata.hardware_compatible,
            "target_platform": metadata.target_platform,
        }
    )
    for is_input, bindings in ((True, record.inputs), (False, record.outputs)):
        expected = sorted((b.name, b.dtype) for b in bindings)
        found = sorted((b.name, b.dtype) for b in metadata.io_bindings if b.is_input is is_input)
        if found != expected:
            raise EngineRecordError(
                f"expected the {'in' if is_input else 'out'}puts {expected} of the record, found {found} in the blob;"
                " lower the program again"
            )
    if not record.plan:
        raise EngineRecordError(
            "the record in a blob does not say which plan is its own; lower the program again"
        )
    return record


def _binding(entry: object) -> BlobBinding:
    if not isinstance(entry, dict):
        raise BlobError(f"a binding in a blob must be an object, found {entry!r:.80}")
    name, is_input = _field(entry, "name", str), _field(entry, "is_input", bool)
    dims = _list(entry, "shape")
    shape = tuple(dim for dim in dims if type(dim) is int and -1 <= dim < 2**63)
    if len(shape) != len(dims) or len(dims) > _MAX_RANK:
        raise BlobError(
            f"a shape in a blob holds at most {_MAX_RANK} sizes or -1, found {dims!r:.80}"
        )
    return BlobBinding(name, _field(entry, "dtype", str), shape, is_input)


def _alias(entry: object, bindings: Sequence[BlobBinding]) -> BlobAlias:
    if not isinstance(entry, dict):
        raise BlobError(f"an alias in a blob must be an object, found {entry!r:.80}")
    # A writer that leaves the kind out means the one that TensorRT itself enforces.
    kind = _field(entry, "kind", str, "kv_cache_update")
    alias = BlobAlias(_field(entry, "output", str), _field(entry, "input", str), kind)
    for name, is_input in ((alias.output, False), (alias.input, True)):
        names = [b.name for b in bindings if b.is_input is is_input]
        if name not in names:
            raise BlobError(
                f"aliased_io names {name!r}; the {'in' if is_input else 'out'}puts are {names}"
            )
    return alias


def _list(data: dict[str, Any], key: str, default: list[object] | None = None) -> list[object]:
    value = data.get(key, default)
    if not isinstance(value, list):
        raise BlobError(f"{key!r} in a blob's metadata must be a list, found {value!r:.80}")
    return value


def _field(data: dict[str, Any], key: str, kind: type, default: object = None) -> Any:
    value = data.get(key, default)
    if type(value) is not kind:
        raise BlobError(
            f"{key!r} in a blob's metadata must be of type {kind.__name__}, found {value!r:.80}"
        )
    return value
