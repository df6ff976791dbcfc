"""`save_program`: `torch.export.save`, with each plan once and without copies of it."""

from __future__ import annotations

import copy
import io
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
from .entry import write_engine
from .kept_errors import keeping_errors


def save_program(
    program: torch.export.ExportedProgram,
    file: str | os.PathLike[str] | BinaryIO,
    *,
    extra_files: dict[str, Any] | None = None,
) -> None:
    """Write a program for `load_program` or `torch.export.load`, with each distinct engine once.

    `torch.export.save` writes an engine once for each attribute that it is under, and takes twice a plan's size for
    that; here plans go from where they are into the file.

    Args:
        program: with or without engines; it is not changed.
        file: a path, which should end in `.pt2`, and is written whole or not at all; or an empty file that is open for
            writing and reading.
        extra_files: as `torch.export.save` takes them.

    Raises:
        OSError: the file cannot be written; what was there is as it was.
        TypeError: no program, no path, or a file that is not open for both.

    """
    if not isinstance(program, torch.export.ExportedProgram):
        raise TypeError(
            f"expected what torch.export.export returned, found {type(program).__name__}"
        )
    if not isinstance(file, (str, os.PathLike)) and not _is_for_both(file):
        raise TypeError(
            f"expected a path, or a file that is open for writing and reading ('w+b'), found {file!r:.80}"
        )
    engines = {
        name: Engine(constant)
        for name, constant in program.constants.items()
        if is_engine(constant)
    }
    # Something small takes their places.
    without = copy.copy(program)
    without._constants = {
        name: torch.empty(0) if name in engines else constant
        for name, constant in program.constants.items()
    }

    def write(target: BinaryIO) -> None:
        with keeping_errors(target) as kept:
            torch.export.save(without, kept, extra_files=extra_files)
        if engines:
            _add(target, engines, order=list(program.constants))

    if isinstance(file, (str, os.PathLike)):
        write_file(Path(file), write)
    else:
        write(file)


def _is_for_both(file: object) -> bool:
    asked = ("writable", "readable", "seekable")
    return not isinstance(file, io.TextIOBase) and all(
        getattr(file, name, bool)() for name in asked
    )


def _add(file: BinaryIO, engines: Mapping[str, Engine], order: Sequence[str]) -> None:
    """Put engines into an archive in the place of the constants of their names."""
    with zipfile.ZipFile(file, "a") as archive:
        (constants,) = constants_of(archive)
        changed: dict[str, bytes | None] = {}
        written: dict[str, str] = {}
        for name, first in _first_equal(engines).items():
            changed[constants.entry_of(name)] = None
            if first not in written:
                written[first] = constants.new_object_entry()
                write_engine(archive, written[first], engines[first])
            constants.redirect(name, written[first])
        constants.sort(order)
        replace_entries(archive, {**changed, constants.entry: constants.encoded()})


def _first_equal(engines: Mapping[str, Engine]) -> dict[str, str]:
    """The name of the first engine that is equal to each."""
    known: dict[tuple[str | None, ...], list[str]] = {}
    found: dict[str, str] = {}
    for name, engine in engines.items():
        alike = known.setdefault(tuple(engine.serialize_metadata_only()), [])
        same = next((first for first in alike if _same_plan(engine, engines[first])), None)
        if same is None:
            alike.append(name)
        found[name] = same or name
    return found


def _same_plan(one: Engine, other: Engine) -> bool:
    plans = [_native.engine_plan(engine.script_object) for engine in (one, other)]
    return plans[0] is plans[1] or plans[0].sha256 == plans[1].sha256
