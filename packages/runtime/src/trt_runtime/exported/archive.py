"""Where the plans are in a `.pt2` that `torch.export.save` wrote.

The archive is a zip whose entries are stored as they are; an engine is an entry that is such a zip itself, with a
pickle (of the record) and the plan. Layouts: `torch/export/pt2_archive/constants.py`, and `torch._C._pickle_save` for
the inner one.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, BinaryIO

from torch.export.pt2_archive.constants import CONSTANTS_DIR, CUSTOM_OBJ_FILENAME_PREFIX

from .overlay import Overlay

_CONFIG_SUFFIX = "_constants_config.json"
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # magic, length of the name, length of the extra field
# The version of the state that has its plan beside it: docs/engine-record.md, "State".
TENSOR_STATE = 1


@dataclass(frozen=True)
class StoredEngine:
    """An engine in an archive: its record, and where its plan is in the file."""

    slots: Sequence[str]
    offset: int
    size: int


@dataclass(frozen=True)
class Constants:
    """An archive's list of the constants of one program: the name of its entry, and its JSON."""

    entry: str
    content: dict[str, Any]

    def objects(self) -> dict[str, str]:
        """The entries of the constants that are TorchBind objects, by the constants' names."""
        return {
            name: self.entry_of(name)
            for name, payload in self.content["config"].items()
            if payload["path_name"].startswith(CUSTOM_OBJ_FILENAME_PREFIX)
        }

    def entry_of(self, name: str) -> str:
        """The entry of a constant."""
        path_name: str = self.content["config"][name]["path_name"]
        return self.folder + path_name

    def redirect(self, name: str, entry: str) -> None:
        """Have a constant read from another entry, which holds a pickled object."""
        self.content["config"][name] |= {
            "path_name": entry.removeprefix(self.folder),
            "use_pickle": True,
            "tensor_meta": None,
        }

    def new_object_entry(self) -> str:
        """The name of an entry for one more TorchBind object."""
        taken = set(self.objects().values())
        numbered = (f"{self.folder}{CUSTOM_OBJ_FILENAME_PREFIX}{index}" for index in count())
        return next(entry for entry in numbered if entry not in taken)

    def sort(self, order: Sequence[str]) -> None:
        """Put the constants into an order, which is that of the program that is loaded."""
        config = self.content["config"]
        self.content["config"] = {name: config[name] for name in order}

    def encoded(self) -> bytes:
        """The list as it is in the archive."""
        return json.dumps(self.content).encode()

    @property
    def folder(self) -> str:
        """Where the constants are."""
        return self.entry.rpartition("/")[0] + "/"


def constants_of(archive: zipfile.ZipFile) -> list[Constants]:
    """The lists of constants, one for each program in the archive."""
    return [
        Constants(name, json.loads(archive.read(name)))
        for name in archive.namelist()
        if _inner(name).startswith(CONSTANTS_DIR) and name.endswith(_CONFIG_SUFFIX)
    ]


def replace_entries(archive: zipfile.ZipFile, contents: Mapping[str, bytes | None]) -> None:
    """Give entries of an archive that is open for appending other contents, add them, or (None) take them out.

    The bytes of what was there stay in the file; nothing refers to them.
    """
    for name, content in contents.items():
        info = archive.NameToInfo.pop(name, None)
        if info is not None:
            archive.filelist.remove(info)
        if content is not None:
            archive.writestr(zipfile.ZipInfo(name), content)


def _inner(name: str) -> str:
    """The name of an entry without the archive's own top folder, which is what the file was called."""
    return name.partition("/")[2]


def stored_engine(file: BinaryIO, archive: zipfile.ZipFile, name: str) -> StoredEngine | None:
    """Find the engine in an entry; None for what is no engine with its plan as it is.

    Raises:
        zipfile.BadZipFile, pickle.UnpicklingError, and whatever else a damaged entry leads to.

    """
    info = archive.getinfo(name)
    start = _data_offset(file, info, 0)
    with zipfile.ZipFile(io.BufferedReader(Overlay(file.fileno(), start, info.file_size))) as inner:
        entries = {_inner(entry.filename): entry for entry in inner.infolist()}
        if not any(entry.startswith("data/") for entry in entries):
            return None  # the state of an earlier release: its plan is in the pickle, as text
        found = _StateUnpickler(io.BytesIO(inner.read(entries["data.pkl"]))).load()
        state = found.state if isinstance(found, _Object) else None
        if not isinstance(state, tuple) or state[0] != TENSOR_STATE:
            return None
        _, slots, plan = state
        entry = entries[f"data/{plan.key}"]
        if entry.file_size != plan.size:
            return None
        return StoredEngine(slots, _data_offset(file, entry, start), plan.size)


def _data_offset(file: BinaryIO, info: zipfile.ZipInfo, start: int) -> int:
    """Where in the file the bytes of an entry are, of an archive that begins at `start`."""
    if info.compress_type != zipfile.ZIP_STORED:
        raise zipfile.BadZipFile(f"expected {info.filename} as it is, found it compressed")
    file.seek(start + info.header_offset)
    magic, name, extra = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
    if magic != b"PK\3\4":
        raise zipfile.BadZipFile(f"expected the header of {info.filename}, found {magic!r}")
    return start + info.header_offset + _LOCAL_HEADER.size + int(name) + int(extra)


class _Object:
    """Stands for the engine object: takes its state and does nothing with it."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


@dataclass(frozen=True)
class _Storage:
    """Stands for the memory of a tensor of bytes: the name of the entry that it is in, and its size."""

    key: str
    size: int


def _whole_storage(storage: _Storage, offset: Any, shape: Any, stride: Any, *_: Any) -> _Storage:
    if (offset, shape, stride) != (0, (storage.size,), (1,)):
        raise pickle.UnpicklingError("expected a plan that is all of a storage")
    return storage


class _StateUnpickler(pickle.Unpickler):
    """Knows the names that an engine's state is pickled with, and gives harmless things for them."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"expected an engine, found {module}.{name}") from None

    def persistent_load(self, pid: Any) -> _Storage:
        kind, dtype, key, _device, size = pid
        if (kind, dtype) != ("storage", "ByteStorage"):
            raise pickle.UnpicklingError(f"expected bytes, found {dtype}")
        return _Storage(str(key), int(size))


_KNOWN: dict[tuple[str, str], Any] = {
    ("__torch__.torch.classes.trt_runtime", "Engine"): _Object,
    ("torch.jit._pickle", "restore_type_tag"): lambda value, _: value,
    ("torch._utils", "_rebuild_tensor_v2"): _whole_storage,
    ("torch", "ByteStorage"): "ByteStorage",
    ("collections", "OrderedDict"): dict,  # the hooks of a tensor: there are none
}
