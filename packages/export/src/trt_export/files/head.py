"""The beginning of a file, by which its kind is known."""

from pathlib import Path

from trt_export.errors import FileFormatError


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
