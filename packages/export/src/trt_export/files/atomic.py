"""Writing files whole or not at all."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

from trt_export.errors import OutputFileError


def write_files(writers: Mapping[Path, Callable[[BinaryIO], object]]) -> tuple[Path, ...]:
    """Write files beside their places, then put them there.

    A failure while writing leaves every old file as it was; so does a kill, except that a temporary file
    (`.<name>.<random>.tmp`) may stay. Once all are written they are renamed one after the other.

    A link is followed: the file that it points to is replaced, with the rights that it had.

    Args:
        writers: what writes the content of each file.

    Raises:
        OutputFileError: a place that cannot be written, or a full disk.
    """
    temporary: dict[Path, Path] = {}
    try:
        for path, write in writers.items():
            check_writable(path)
            target = Path(os.path.realpath(path))
            temporary[target], file = _open(target)
            with file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
        for path, written in temporary.items():
            os.replace(written, path)
    except OSError as error:
        names = ", ".join(str(path) for path in writers)
        raise OutputFileError(f"cannot write {names}: {error.strerror or error}") from error
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
        OutputFileError: the path is a directory, a device or a read-only file, or its directory is missing or
            not writable.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise OutputFileError(f"cannot write {path}: it is a directory; name a file in it")
        if target.exists():
            mode = target.stat().st_mode
            if not stat.S_ISREG(mode):  # Renaming a file over a device would take its place.
                raise OutputFileError(
                    f"cannot write {path}: it is no regular file; name a file to write"
                )
            if not mode & stat.S_IWUSR:
                raise OutputFileError(
                    f"cannot write {path}: it is read-only; allow it with chmod u+w, or name another file"
                )
        if not target.parent.is_dir():
            raise OutputFileError(
                f"cannot write {path}: there is no directory {path.parent}; make it first"
            )
    except OSError as error:
        raise OutputFileError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        # With the name that the real one will have: it is longer than the file's own.
        descriptor, name = _temporary(target)
        os.close(descriptor)
        os.unlink(name)
    except OSError as error:
        raise OutputFileError(
            f"cannot write into {path.parent}: {error.strerror or error}"
        ) from error


def _temporary(path: Path) -> tuple[int, str]:
    return tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)


def _open(path: Path) -> tuple[Path, BinaryIO]:
    descriptor, name = _temporary(path)
    # Only its owner may read a temporary file of tempfile's; the result keeps the rights of the old file, or gets
    # those of any new one.
    if path.exists():
        rights = stat.S_IMODE(path.stat().st_mode)
    else:
        umask = os.umask(0)
        os.umask(umask)
        rights = 0o666 & ~umask
    os.fchmod(descriptor, rights)
    return Path(name), open(descriptor, "w+b")


def _sync_directory(directory: Path) -> None:
    """Make the renames last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
