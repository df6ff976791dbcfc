"""Headers of plans: writes the one of `onnxruntime` plans, reads those of every plan format.

A plan is the bytes of a built engine. The `ortp` header is ours and has a checksum; those of TensorRT and
TensorRT-RTX are NVIDIA's and undocumented, so what is not certain about them is None. See docs/engine-record.md.
"""

import hashlib
import io
import json
import mmap
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from trt_export.errors import (
    CorruptPlanError,
    PlanError,
    TruncatedPlanError,
    UnknownPlanFormatError,
)
from trt_export.json_text import load_json

PlanSource = bytes | bytearray | memoryview | str | os.PathLike[str]

FORMATS = {b"ortp": "onnxruntime", b"ftrt": "tensorrt", b"vtrt": "tensorrt-rtx"}

_ORTP = struct.Struct(
    "<4sHHIIQ32sQ"
)  # magic, version, flags, payload offset, provenance size, payload size, sha256, model size
_ORTP_VERSION = 1
_EXTERNAL_WEIGHTS = 1  # flag: weights lie behind the model, whose size is in the header
_ALIGNMENT = 64
_MAX_PROVENANCE = 1 << 20  # a header that claims more is damaged; ours are a few hundred bytes
_MAX_OFFSET = _MAX_PROVENANCE + 256

# As seen in plans of TensorRT 10.13 to 11 and TensorRT-RTX 1.7: four version bytes; RTX adds a size and a mask.
HEADER_BYTES = _MAX_OFFSET  # no header of any format is longer
_NVIDIA_VERSION = slice(24, 28)
_RTX_SIZE = struct.Struct("<Q")
_RTX_SIZE_OFFSET = 16
_RTX_MASK = struct.Struct("<I")
_RTX_MASK_OFFSET = 32
_RTX_MASK_BITS = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
_NVIDIA_HEADER_SIZE = 36


@dataclass(frozen=True)
class PlanHeader:
    """What the first bytes of a plan say about it. None means that the header does not tell, or not for certain.

    `version` is the header's version for `onnxruntime` plans and the builder's for the others; `compute_capabilities`
    are those of the GPUs that the plan was built for, as `"8.6"`; `payload_offset` and `payload_size` (bytes) locate
    the payload of an `onnxruntime` plan, which begins with an ONNX model of `model_size` bytes: all of it, or what is
    before the weights; `sha256` is that of the payload.
    """

    format: str
    size: int
    version: str | None = None
    compute_capabilities: tuple[str, ...] | None = None
    payload_offset: int | None = None
    payload_size: int | None = None
    model_size: int | None = None
    sha256: str | None = None
    provenance: Mapping[str, Any] | None = None


def write_onnxruntime_plan(chunks: Iterable[memoryview], provenance: Mapping[str, Any]) -> bytes:
    """Return the `ortp` header and one ONNX model, given as consecutive byte chunks.

    Raises:
        PlanError: the provenance is larger than readers take.
    """
    buffer = io.BytesIO()
    write_onnxruntime_plan_to(buffer, chunks, provenance)
    return buffer.getvalue()


def write_onnxruntime_plan_to(
    file: IO[bytes],
    chunks: Iterable[memoryview],
    provenance: Mapping[str, Any],
    model_size: int | None = None,
) -> None:
    """Write the same into a file that is empty, one chunk at a time.

    With `model_size`, the chunks are a model of that many bytes and the weights behind it (docs/engine-record.md).

    Raises:
        PlanError: as `write_onnxruntime_plan`.
        OSError: the file cannot be written.
    """
    text = json.dumps(dict(provenance), sort_keys=True, allow_nan=False).encode()
    if len(text) > _MAX_PROVENANCE:
        raise PlanError(
            f"expected a provenance of at most {_MAX_PROVENANCE} bytes, found {len(text)}; say less of the builder"
        )
    offset = _payload_offset(len(text))
    file.write(bytes(_ORTP.size) + text + bytes(offset - _ORTP.size - len(text)))
    digest, size = hashlib.sha256(), 0
    for chunk in chunks:
        digest.update(chunk)
        size += chunk.nbytes
        file.write(chunk)
    file.seek(0)
    flags = 0 if model_size is None else _EXTERNAL_WEIGHTS
    end = offset, len(text), size, digest.digest(), model_size or 0
    file.write(_ORTP.pack(b"ortp", _ORTP_VERSION, flags, *end))


def read_plan_header(plan: PlanSource, size: int | None = None) -> PlanHeader:
    """Describe a plan, given as a buffer or as the path of a file, from its header alone.

    With ``size``, that of the plan, its first `HEADER_BYTES` bytes (or all, if it has fewer) are enough.

    Raises:
        UnknownPlanFormatError: no known magic, or an `ortp` version or flag of a later release.
        TruncatedPlanError: the plan is shorter or longer than its header says.
        CorruptPlanError: the header contradicts itself.
    """
    view, close = _view(plan)
    try:
        return _read(view, view.nbytes if size is None else size)
    finally:
        close()


def check_plan(plan: PlanSource) -> PlanHeader:
    """As `read_plan_header`, and read the whole plan against its checksum where its format has one (`onnxruntime`).

    Raises:
        UnknownPlanFormatError, TruncatedPlanError, CorruptPlanError: as `read_plan_header`.
        CorruptPlanError: the payload does not have the sha256 of the header.
    """
    view, close = _view(plan)
    try:
        header = _read(view, view.nbytes)
        if header.sha256 is not None:
            assert header.payload_offset is not None
            with view[header.payload_offset :] as payload:
                found = hashlib.sha256(payload).hexdigest()
            if found != header.sha256:
                raise CorruptPlanError(
                    f"the plan is damaged: its payload has sha256 {found}, its header says {header.sha256}; "
                    "compile the program again"
                )
        return header
    finally:
        close()


def _view(plan: PlanSource) -> tuple[memoryview, Any]:
    """Return the bytes without copying them, and what closes them."""
    if isinstance(plan, (str, os.PathLike)):
        with open(plan, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b""), lambda: None
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        view = memoryview(mapped)

        def close() -> None:
            view.release()
            mapped.close()

        return view, close
    view = memoryview(plan).cast("B")
    return view, view.release


def _read(view: memoryview, size: int) -> PlanHeader:
    magic = bytes(view[:4])
    format_name = FORMATS.get(magic)
    if format_name is None:
        raise UnknownPlanFormatError(
            f"not a plan: it begins with {magic!r}, expected {_list(FORMATS)} "
            f"(plan formats {_list(FORMATS.values())})"
        )
    if format_name == "onnxruntime":
        return _read_ortp(view, size)
    if size < _NVIDIA_HEADER_SIZE:
        raise TruncatedPlanError(
            f"the {format_name} plan is truncated: {size} bytes, its header alone has {_NVIDIA_HEADER_SIZE}"
        )
    return _read_nvidia(view, size, format_name)


def _read_ortp(view: memoryview, size: int) -> PlanHeader:
    if size < _ORTP.size:
        raise TruncatedPlanError(
            f"the onnxruntime plan is truncated: {size} bytes, its header alone has {_ORTP.size}"
        )
    _, version, flags, offset, provenance_size, payload_size, digest, model_size = (
        _ORTP.unpack_from(view)
    )
    if version != _ORTP_VERSION or flags not in (0, _EXTERNAL_WEIGHTS):
        raise UnknownPlanFormatError(
            f"the onnxruntime plan has header version {version} and flags {flags:#x}; this release reads version "
            f"{_ORTP_VERSION} and flags 0 and {_EXTERNAL_WEIGHTS}: pip install -U trt-export trt-runtime"
        )
    if (
        provenance_size > _MAX_PROVENANCE
        or offset < _payload_offset(provenance_size)
        or offset > _MAX_OFFSET
        or offset % _ALIGNMENT
    ):
        raise CorruptPlanError(
            f"the header of the onnxruntime plan contradicts itself: payload offset {offset}, provenance of "
            f"{provenance_size} bytes"
        )
    if size != offset + payload_size:
        raise TruncatedPlanError(
            f"the onnxruntime plan has {size} bytes, its header says {offset + payload_size}; "
            "copy or compile it again"
        )
    if (flags == 0 and model_size) or any(view[_ORTP.size + provenance_size : offset]):
        raise CorruptPlanError(
            "the onnxruntime plan is damaged: bytes of its header that must be zero are not"
        )
    if flags == 0:
        model_size = payload_size
    if model_size > payload_size or (flags and not model_size):
        raise CorruptPlanError(
            f"the header of the onnxruntime plan contradicts itself: a model of {model_size} bytes in a payload of "
            f"{payload_size}"
        )
    model_end = offset + model_size
    if any(view[model_end : min(_aligned(model_end), size)]):
        raise CorruptPlanError(
            "the onnxruntime plan is damaged: bytes between its model and its weights are not zero"
        )
    try:
        provenance = load_json(bytes(view[_ORTP.size : _ORTP.size + provenance_size]))
    except ValueError as error:
        raise CorruptPlanError(
            f"the provenance in the onnxruntime plan is no JSON text: {error}"
        ) from error
    if not isinstance(provenance, dict):
        raise CorruptPlanError("the provenance in the onnxruntime plan is no JSON object")
    return PlanHeader(
        "onnxruntime",
        size,
        version=str(version),
        payload_offset=offset,
        payload_size=payload_size,
        model_size=model_size,
        sha256=digest.hex(),
        provenance=provenance,
    )


def _payload_offset(provenance_size: int) -> int:
    return _aligned(_ORTP.size + provenance_size)


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT


def _read_nvidia(view: memoryview, size: int, format_name: str) -> PlanHeader:
    numbers = bytes(view[_NVIDIA_VERSION])
    # A major version of 0 or an absurd one means that the bytes are not what they were in the plans we have seen.
    version = ".".join(map(str, numbers)) if 1 <= numbers[0] <= 99 else None
    if format_name != "tensorrt-rtx" or version is None:
        return PlanHeader(format_name, size, version=version)
    (stated,) = _RTX_SIZE.unpack_from(view, _RTX_SIZE_OFFSET)
    if stated > size:
        raise TruncatedPlanError(
            f"the tensorrt-rtx plan has {size} bytes, its header says {stated}; copy or compile it again"
        )
    (mask,) = _RTX_MASK.unpack_from(view, _RTX_MASK_OFFSET)
    known = 0 < mask < 1 << len(_RTX_MASK_BITS)
    capabilities = tuple(name for bit, name in enumerate(_RTX_MASK_BITS) if mask >> bit & 1)
    return PlanHeader(
        format_name,
        size,
        version=version,
        compute_capabilities=capabilities if known else None,
    )


def _list(names: Iterable[object]) -> str:
    return ", ".join(name.decode() if isinstance(name, bytes) else str(name) for name in names)
