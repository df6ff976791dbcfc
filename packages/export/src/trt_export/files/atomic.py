"""Writing files whole or not at all."""

import contextlib
import os
import secrets
import stat
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
        descriptor, name = _temporary(target, 0o600)
        os.close(descriptor)
        name.unlink()
    except OSError as error:
        raise OutputFileError(
            f"cannot write into {path.parent}: {error.strerror or error}"
        ) from error


def _temporary(path: Path, mode: int) -> tuple[int, Path]:
    """Create a temporary file; the kernel applies umask, default ACL and setgid bit of the directory to its mode."""
    while True:
        name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        with contextlib.suppress(FileExistsError):
            return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), name


def _open(path: Path) -> tuple[Path, BinaryIO]:
    if not path.exists():
        descriptor, name = _temporary(path, 0o666)
        return name, open(descriptor, "w+b")
    descriptor, name = _temporary(path, 0o600)  # the old file's rights may allow no more
    try:
        _copy_rights(path, descriptor)
    except OSError:
        os.close(descriptor)
        name.unlink(missing_ok=True)
        raise
    return name, open(descriptor, "w+b")


_ACL = "system.posix_acl_access"


def _copy_rights(path: Path, descriptor: int) -> None:
    """Give a temporary file the rights, with the ACL, of the file that it replaces."""
    try:
        access = os.getxattr(path, _ACL)
    except (OSError, AttributeError):  # it has none, or the system knows none
        with contextlib.suppress(OSError, AttributeError):
            os.removexattr(descriptor, _ACL)  # the directory's default
    else:
        os.setxattr(descriptor, _ACL, access)
    os.fchmod(descriptor, stat.S_IMODE(path.stat().st_mode))


def _sync_directory(directory: Path) -> None:
    """Make the renames last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
