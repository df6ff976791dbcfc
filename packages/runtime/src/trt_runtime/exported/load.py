"""`load_program`: `torch.export.load`, with the plans mapped."""

from __future__ import annotations

import logging
import os
import pickle
import secrets
import stat
import zipfile
from collections.abc import Callable
from typing import Any, BinaryIO

import torch
from torch.export.pt2_archive.constants import OPAQUE_OBJ_FILENAME_PREFIX

from .. import _native
from ..buffers import opened
from ..errors import ProgramError, TrtRuntimeError
from .archive import constants_of, replace_entries, stored_engine
from .overlay import Overlay

logger = logging.getLogger(__name__)

# The engines of files that are being loaded, by the names that their stand-ins have.
_held: dict[str, torch.ScriptObject] = {}


def load_program(
    path: str | os.PathLike[str], *, extra_files: dict[str, Any] | None = None
) -> torch.export.ExportedProgram:
    """Load what `torch.export.save` or `save_program` wrote; plans are mapped from the file, not read.

    `torch.export.load` gives an equal program, but reads each plan into memory, for a while twice. A file of a
    trt-runtime before 0.5 has its plans as text, which is what is loaded then.

    Args:
        path: the file. It must keep its bytes for as long as the program lives, as for `Engine.from_plan`; replacing
            it (as `save_program` does) or deleting it is fine.
        extra_files: as `torch.export.load` takes them.

    Raises:
        OSError: the file cannot be opened.
        ProgramError: torch cannot load it: it is no exported program, or damaged.
        RecordError, PlanError: an engine in it is no good.

    """
    keys: list[str] = []
    try:
        with opened(path) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("what is no regular file")
            overlay = Overlay(descriptor, 0, status.st_size)
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                _put_engines_aside(file, overlay, keys)
            # torch asks for an io.IOBase, but is typed for IO[bytes].
            source: Any = overlay if keys else path
            return torch.export.load(source, extra_files=extra_files)
    except (OSError, TrtRuntimeError, MemoryError):
        raise
    except Exception as error:  # torch raises whatever its parts raise
        raise ProgramError(
            f"{os.fsdecode(path)}: expected a program that torch.export.save or save_program wrote, found "
            f"{type(error).__name__}: {error}; save it again"
        ) from error
    finally:
        for key in keys:
            del _held[key]


def _put_engines_aside(file: BinaryIO, overlay: Overlay, held: list[str]) -> None:
    """Make the engines of an archive, and have it refer to them; `held` gets the keys by which it does.

    An archive or an engine that is not understood is left to torch, which loads it or says what is wrong with it.
    """
    try:
        archive = zipfile.ZipFile(overlay, "a")
        programs = constants_of(archive)
        entries = {entry for constants in programs for entry in constants.objects().values()}
        found = {entry: stored_engine(file, archive, entry) for entry in sorted(entries)}
    except Exception as error:
        logger.debug("the plans are read, not mapped: %s", error)
        return
    keys: dict[str, str] = {}
    for entry, engine in found.items():
        if engine is not None:
            plan = _native.map_plan(file.fileno(), engine.offset, engine.size)
            script_object = _native.restore_engine(engine.slots, plan)
            keys[entry] = secrets.token_hex(16)
            _held[keys[entry]] = script_object
            held.append(keys[entry])
    changed: dict[str, bytes | None] = {}
    for constants in programs:
        for name, entry in constants.objects().items():
            if entry in keys:
                stand_in = f"{constants.folder}{OPAQUE_OBJ_FILENAME_PREFIX}{keys[entry]}"
                constants.redirect(name, stand_in)
                changed |= {stand_in: pickle.dumps(_StandIn(keys[entry])), entry: None}
        changed[constants.entry] = constants.encoded()
    replace_entries(archive, changed)
    archive.close()
    overlay.seek(0)


class _StandIn:
    """What is in an archive in place of an engine; loading it gives the engine."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __reduce__(self) -> tuple[Callable[[str], torch.ScriptObject], tuple[str]]:
        return held_engine, (self._key,)


def held_engine(key: str) -> torch.ScriptObject:
    """The engine behind a stand-in."""
    return _held[key]
