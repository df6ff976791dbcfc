"""`save_program`: `torch.export.save`, with each plan once."""

from __future__ import annotations

import copy
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import torch

from .. import _native
from ..engine import Engine
from ..files import write_file
from ..state import is_engine
from .archive import constants_of, replace_entries


def save_program(
    program: torch.export.ExportedProgram,
    path: str | os.PathLike[str],
    *,
    extra_files: dict[str, Any] | None = None,
) -> None:
    """Write a program for `load_program` or `torch.export.load`; each distinct engine is in the file once.

    `torch.export.save` writes an engine once for each attribute that it is under.

    Args:
        program: with or without engines; it is not changed.
        path: the file, which ends in `.pt2`; written whole or not at all.
        extra_files: as `torch.export.save` takes them.

    Raises:
        OSError: the file cannot be written; what was there is as it was.

    """
    again = _written_before(program)
    # Something small takes their places.
    first_only = copy.copy(program)
    first_only._constants = {
        name: torch.empty(0) if name in again else constant
        for name, constant in program.constants.items()
    }

    def write(file: BinaryIO) -> None:
        torch.export.save(first_only, file, extra_files=extra_files)
        if again:
            _refer_to_first(file, again, list(program.constants))

    write_file(Path(path), write)


def _written_before(program: torch.export.ExportedProgram) -> dict[str, str]:
    """The constants that are the same engine as one before them, and the name of that one."""
    known: dict[tuple[str | None, ...], list[tuple[str, Engine]]] = {}
    again: dict[str, str] = {}
    for name, constant in program.constants.items():
        if not is_engine(constant):
            continue
        engine = Engine(constant)
        alike = known.setdefault(tuple(engine.serialize_metadata_only()), [])
        same = next((first for first, other in alike if _same_plan(engine, other)), None)
        if same is None:
            alike.append((name, engine))
        else:
            again[name] = same
    return again


def _same_plan(one: Engine, other: Engine) -> bool:
    plans = [_native.engine_plan(engine.script_object) for engine in (one, other)]
    return plans[0] is plans[1] or plans[0].sha256 == plans[1].sha256


def _refer_to_first(file: BinaryIO, again: Mapping[str, str], order: Sequence[str]) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        (constants,) = constants_of(archive)
        objects = constants.objects()
        changed: dict[str, bytes | None] = {}
        for name, first in again.items():
            changed[constants.entry_of(name)] = None
            constants.redirect(name, objects[first])
        constants.sort(order)
        replace_entries(archive, {**changed, constants.entry: constants.encoded()})
