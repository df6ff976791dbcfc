"""The beginning of a file, by which its kind is known."""

import stat
from pathlib import Path

from trt_export.errors import FileFormatError, UsageError


def read_head(path: Path) -> bytes:
    """The first bytes of a file, enough to tell its kind.

    Raises:
        FileFormatError: no file, a directory, or not readable.
    """
    try:
        with path.open("rb") as file:
            return file.read(64)
    except OSError as error:
        raise FileFormatError(f"cannot read {path}: {error.strerror}") from error


def check_readable(path: Path) -> None:
    """Tell a file that is missing or cannot be read, which is wrong usage, from one whose content is damaged.

    Raises:
        UsageError: no file, no regular file, or one that cannot be opened.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
            raise UsageError(f"{path}: expected a regular file, found {kind}; name a .pte or .pt2")
        with path.open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        reason = error.strerror if isinstance(error, OSError) else error
        raise UsageError(
            f"{path}: expected a file that can be read, found: {reason}; name another one"
        ) from error
