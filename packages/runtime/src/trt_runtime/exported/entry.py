"""An engine as an entry of a `.pt2`: what `torch._C._pickle_save` writes of it, without holding that in memory."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from typing import Any

import torch

from .. import _native
from ..engine import Engine
from .archive import TENSOR_STATE
from .kept_errors import keeping_errors

_ALIGNMENT = 64  # torch's own, of what is in its archives
_LOCAL_HEADER_SIZE = 30
_ZIP64_EXTRA_SIZE = 20  # sizes of 64 bits, which are not known when the header is written
_PADDING = struct.Struct("<2sH")  # the extra field that torch fills up with: a name, a length


def write_engine(archive: zipfile.ZipFile, name: str, engine: Engine) -> None:
    """Add an entry with an engine; its plan goes from where it is into the file.

    Args:
        archive: open for appending, and about to write at the end of its file.
        name: of the entry.
        engine: of any size.

    """
    entry = zipfile.ZipInfo(name)
    before = archive.start_dir + _LOCAL_HEADER_SIZE + len(name.encode()) + _ZIP64_EXTRA_SIZE
    padding = -(before + _PADDING.size) % _ALIGNMENT
    entry.extra = _PADDING.pack(b"FB", padding) + b"Z" * padding
    plan = _native.engine_plan(
        engine.script_object
    ).tensor  # not `plan_tensor`, which counts as given away
    pickled = _pickle(engine.serialize_metadata_only(), plan.numel())
    with archive.open(entry, "w", force_zip64=True) as file, keeping_errors(file) as kept:
        writer = torch._C.PyTorchFileWriter(kept)
        memory: Any = (
            plan.untyped_storage()
        )  # torch.save gives that too, whatever torch's types say
        writer.write_record("data/0", memory, plan.numel())
        writer.write_record("data.pkl", pickled, len(pickled))
        writer.write_record("byteorder", b"little", 6)
        writer.write_end_of_file()


def _pickle(slots: Sequence[str | None], size: int) -> bytes:
    """The object with its state, `(1, slots, plan)`; the opcodes are those of protocol 2."""
    number = b"\x8a\x08" + size.to_bytes(8, "little")
    storage = (
        *(b"(", _text("storage"), _name("torch", "ByteStorage"), _text("0"), _text("cpu")),
        *(number, b"tQ"),
    )
    strings = b"".join(_text(slot or "") for slot in slots)
    return b"".join(
        (
            *(b"\x80\x02", _name("__torch__.torch.classes.trt_runtime", "Engine"), b")\x81"),
            *(b"K", bytes([TENSOR_STATE])),
            *(_name("torch.jit._pickle", "restore_type_tag"), b"](", strings, b"e"),
            *(_text("List[str]"), b"\x86R"),
            *(_name("torch._utils", "_rebuild_tensor_v2"), b"(", *storage),
            *(b"K\x00", b"(", number, b"t", b"(K\x01t", b"\x89"),
            *(_name("collections", "OrderedDict"), b")RtR"),
            b"\x87b.",
        )
    )


def _name(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


def _text(value: str) -> bytes:
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data
