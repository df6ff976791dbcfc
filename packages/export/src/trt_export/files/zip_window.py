"""A file inside of a zip, read at any place without reading what lies before it.

`zipfile` reads a member from its beginning whenever a reader seeks back (and up to Python 3.11 also forward). A zip
within a zip is read from its end, so that it would be read several times over.
"""

import io
import os
import zipfile
from typing import IO, Any, BinaryIO

# PKWARE's APPNOTE, 4.3.7: the local header, whose name and extra field may differ in length from the directory's.
_LOCAL_HEADER, _NAME_SIZE, _EXTRA_SIZE = 30, 26, 28
_MAGIC = b"PK\x03\x04"
_STORED, _ENCRYPTED = zipfile.ZIP_STORED, 1


def open_member(file: BinaryIO, archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open a member for reading: the window that it takes in the file if it is stored as it is, else `archive.open`.

    Args:
        file: the archive's own file.
        archive: a `ZipFile` of that file.
        name: of the member.

    Raises:
        KeyError: no such member.
        zipfile.BadZipFile: it is not where the directory of the archive says.
    """
    info = archive.getinfo(name)
    if info.compress_type != _STORED or info.flag_bits & _ENCRYPTED:
        return archive.open(info)
    file.seek(info.header_offset)
    header = file.read(_LOCAL_HEADER)
    if len(header) < _LOCAL_HEADER or not header.startswith(_MAGIC):
        raise zipfile.BadZipFile(f"{name!r} is not where the zip's directory says")
    skipped = sum(int.from_bytes(header[at : at + 2], "little") for at in (_NAME_SIZE, _EXTRA_SIZE))
    start = info.header_offset + _LOCAL_HEADER + skipped
    if info.compress_size != info.file_size or start + info.file_size > file.seek(0, os.SEEK_END):
        raise zipfile.BadZipFile(f"{name!r} ends behind the end of the file")
    return io.BufferedReader(_Window(file, start, info.file_size))


class _Window(io.RawIOBase):
    """A range of a file, which it does not close."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file = file
        self._start = start
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"expected a place in the file, found {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(view.nbytes, self._size - self._position))
        self._file.seek(self._start + self._position)
        data = self._file.read(wanted)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
