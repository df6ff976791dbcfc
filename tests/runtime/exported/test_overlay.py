"""`Overlay`: a file over which one writes in memory."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trt_runtime.exported.overlay import Overlay

DATA = bytes(range(100))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "data").write_bytes(b"before" + DATA + b"behind")
    descriptor = os.open(tmp_path / "data", os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


STEPS = st.one_of(
    st.tuples(st.just("read"), st.integers(0, 150)),
    st.tuples(st.just("seek"), st.integers(0, 120)),
    st.tuples(st.just("write"), st.binary(max_size=60)),
    st.tuples(st.just("truncate"), st.none()),
)


@given(st.lists(STEPS, max_size=30))
def test_it_is_as_a_copy_of_the_part(steps) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b"before" + DATA + b"behind")
        file.flush()
        overlay, copy = Overlay(file.fileno(), 6, len(DATA)), io.BytesIO(DATA)
        for name, argument in steps:
            end = len(copy.getvalue())
            if name == "seek":
                argument = min(
                    argument, end
                )  # zeros between the end and what is written are not for us
            arguments = () if argument is None else (argument,)
            assert getattr(overlay, name)(*arguments) == getattr(copy, name)(*arguments)
            assert overlay.tell() == copy.tell()
        overlay.seek(0)
        assert overlay.read() == copy.getvalue()
        file.seek(0)
        assert file.read() == b"before" + DATA + b"behind"


def test_places_before_the_beginning_and_behind_the_end(file: int) -> None:
    overlay = Overlay(file, 6, len(DATA))
    assert overlay.seek(-3, os.SEEK_END) == 97
    assert overlay.read() == DATA[97:]
    with pytest.raises(OSError, match="found -1"):
        overlay.seek(-1)
    overlay.seek(101)
    assert overlay.read() == b""
    with pytest.raises(OSError, match="found 101"):
        overlay.write(b"x")


def test_a_file_that_was_cut_off_ends_there(file: int, tmp_path: Path) -> None:
    overlay = Overlay(file, 6, len(DATA))
    os.truncate(tmp_path / "data", 56)
    assert overlay.read(100) == DATA[:50]


def test_an_archive_gets_other_entries(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("kept", b"1")
    before = path.read_bytes()
    with path.open("rb") as file:
        overlay = Overlay(file.fileno(), 0, len(before))
        with zipfile.ZipFile(overlay, "a") as archive:
            archive.writestr("new", b"22")
        with zipfile.ZipFile(overlay) as archive:
            assert {name: archive.read(name) for name in archive.namelist()} == {
                "kept": b"1",
                "new": b"22",
            }
            assert archive.testzip() is None
    assert path.read_bytes() == before
