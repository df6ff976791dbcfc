"""Writing a file that a user named: checked before long work, written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from .errors import UsageError

_PREFIX, _SUFFIX = ".trt-runtime-", ".part"
# By whether there is an old file: its rights, which are copied once all is written, may allow less than those of a
# new file.
_CREATION_MODE = {False: 0o666, True: 0o600}
_ACL = "system.posix_acl_access"


def check_output(path: Path, taken: Mapping[str, Path]) -> None:
    """Find out ahead of long work whether a file can be written.

    Args:
        path: the file; a link is followed.
        taken: files that are read meanwhile and must not be replaced, by what a user calls them.

    Raises:
        UsageError: the path is no place for a file, or that of a file that cannot or must not be replaced.

    """
    try:
        _check_place(path, Path(os.path.realpath(path)))
        for what, other in taken.items():
            if path.exists() and other.exists() and path.samefile(other):
                raise UsageError(
                    f"--output: expected another file than {what}, found {_shown(path)}, which is the same "
                    "file; name another one"
                )
    except (OSError, ValueError) as error:  # ValueError: a null byte
        raise _refused(path, error) from error


def write_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file: all of it or nothing. A link is followed, and the rights of an old file are kept.

    Raises:
        OSError: the place cannot be written, or is full, or there is something that is no regular file, or a
            read-only one; what was there is as it was.

    """
    target = Path(os.path.realpath(path))
    name = None
    try:
        _check_replaceable(target)
        descriptor, name = _temporary(target.parent, _CREATION_MODE[target.exists()])
        with os.fdopen(descriptor, "w+b") as file:
            write(file)
            _copy_rights(target, file.fileno())
        name.replace(target)
    except BaseException as error:
        if name is not None:
            with suppress(OSError):
                name.unlink(missing_ok=True)
        if isinstance(error, OSError):  # the name of a temporary file means nothing to anyone
            raise OSError(
                error.errno, f"{error.strerror or error}; nothing was written", str(path)
            ) from error
        raise


def _check_place(path: Path, target: Path) -> None:
    # Path("") is "."
    if target.is_dir():
        raise UsageError(
            f"--output: expected a file to write, found the directory {_shown(path)}; name a file in it"
        )
    if not target.parent.is_dir():
        raise UsageError(
            f"--output: expected a place in a folder that is there, found {_shown(path)}; make "
            f"{_shown(target.parent)} first"
        )
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):  # a file renamed over a device takes its place
        raise UsageError(
            f"--output: expected a regular file, found {_shown(path)}, which is none; name a file to write"
        )
    if mode is not None and not (mode & stat.S_IWUSR and os.access(target, os.W_OK)):
        raise UsageError(
            f"--output: expected a file that can be written, found {_shown(path)}, which is read-only; allow "
            "it with chmod u+w, or name another file"
        )
    descriptor, name = _temporary(target.parent, _CREATION_MODE[True])
    os.close(descriptor)
    name.unlink()


def _check_replaceable(target: Path) -> None:
    """Refuse what a rename would replace though nobody could, or should, write to it; raises OSError."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Not a regular file")
    if not (mode & stat.S_IWUSR and os.access(target, os.W_OK)):
        raise PermissionError(errno.EACCES, "The file is read-only")


def _temporary(folder: Path, mode: int) -> tuple[int, Path]:
    """Create a temporary file; the kernel applies umask, default ACL and setgid bit of the folder to its mode."""
    while True:
        # Short whatever the file is called: a file system limits the length of names.
        name = folder / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
        with suppress(FileExistsError):
            return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), name


def _copy_rights(target: Path, descriptor: int) -> None:
    """Give a temporary file the rights, with the ACL, of the file that it replaces; those of a new file stay."""
    try:
        rights = stat.S_IMODE(target.stat().st_mode)
    except FileNotFoundError:
        return
    try:
        access = os.getxattr(target, _ACL)
    except OSError:  # it has none, or the file system knows none
        with suppress(OSError):
            os.removexattr(descriptor, _ACL)  # the folder's default
    else:
        os.setxattr(descriptor, _ACL, access)
    os.fchmod(descriptor, rights)


def _refused(path: Path, error: OSError | ValueError) -> UsageError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(
        f"--output: expected a place that can be written, found {_shown(path)} ({reason}); name another file"
    )


def _shown(path: Path) -> str:
    """A path in a message: one that is longer than any can be says no more in full."""
    text = str(path)
    return text if len(text) <= 300 else f"{text[:150]}...{text[-100:]}"
