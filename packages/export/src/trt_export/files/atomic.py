"""Writing files whole or not at all."""

import contextlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from trt_export.errors import OutputFileError


def write_files(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> tuple[Path, ...]:
    """Write files beside their places, then put them there.

    A failure while writing leaves every old file as it was; so does a kill, except that a temporary file
    (`.<name>.<random>.tmp`) may stay. Once all are written they are renamed one after the other.

    Args:
        writers: what writes the content of each file.

    Raises:
        OutputFileError: a place that cannot be written, or a full disk.
    """
    temporary: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            check_writable(path)
            temporary[path], file = _open(path)
            with file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for path, written in temporary.items():
            os.replace(written, path)
    except OSError as error:
        names = ", ".join(str(path) for path in writers)
        raise OutputFileError(
            f"cannot write {names}: {error.strerror or error}; nothing was changed"
        ) from error
    finally:
        for written in temporary.values():
            with contextlib.suppress(OSError):
                written.unlink(missing_ok=True)
    for directory in {path.parent for path in writers}:
        _sync_directory(directory)
    return tuple(writers)


def check_writable(path: Path) -> None:
    """Find out ahead of long work whether a file can be written.

    Raises:
        OutputFileError: the path is a directory, or its directory is missing or not writable.
    """
    if path.is_dir():
        raise OutputFileError(f"cannot write {path}: it is a directory; name a file in it")
    if not path.parent.is_dir():
        raise OutputFileError(
            f"cannot write {path}: there is no directory {path.parent}; make it first"
        )
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise OutputFileError(
            f"cannot write into {path.parent}: {error.strerror or error}"
        ) from error


def _open(path: Path) -> tuple[Path, BinaryIO]:
    # Only its owner may read a temporary file of tempfile's; the result gets the rights of any new file.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    umask = os.umask(0)
    os.umask(umask)
    os.fchmod(descriptor, 0o666 & ~umask)
    return Path(name), open(descriptor, "wb")


def _sync_directory(directory: Path) -> None:
    """Make the renames last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
