"""A file is written whole or not at all: failures, kills and full disks."""

import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest

from trt_export.errors import OutputFileError
from trt_export.files.atomic import check_writable, write_files


def content(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda file: file.write(data)


def test_a_new_file_and_one_that_is_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model.pte"
    assert write_files({target: content(b"first")}) == (target,)
    write_files({target: content(b"second")})
    assert target.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [target]


def test_who_has_the_old_file_open_goes_on_reading_it(tmp_path: Path) -> None:
    """A runtime may have it mapped: its bytes must not change under it."""
    target = tmp_path / "model.pte"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        write_files({target: content(b"new and longer")})
        assert reader.read() == b"old"


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o027, 0o077])
def test_the_rights_are_those_of_any_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        (tmp_path / "plain").write_bytes(b"")
        write_files({tmp_path / "model.pte": content(b"x")})
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o666 & ~umask}


def test_the_umask_of_the_process_is_never_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that other threads make meanwhile would get the rights of another umask."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"os.umask({mask:o})"))
    for _ in range(2):
        write_files({tmp_path / "model.pte": content(b"x")})
        check_writable(tmp_path / "model.pte")


def test_threads_write_and_make_files_at_once_with_the_same_rights(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for index in range(20):
            write_files({tmp_path / f"{number}-{index}.pte": content(b"x")})
            write_files({tmp_path / "one name for all": content(b"x" * 1000)})
            (tmp_path / f"{number}-{index}.plain").write_bytes(b"")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert len(modes) == 1
    assert len(list(tmp_path.iterdir())) == 8 * 20 * 2 + 1


def test_a_file_that_only_its_owner_may_read_never_is_open_to_others(tmp_path: Path) -> None:
    target = tmp_path / "model.pte"
    target.write_bytes(b"old")
    target.chmod(0o600)

    def write(file: BinaryIO) -> None:
        modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
        assert modes == {0o600}
        file.write(b"new")

    write_files({target: write})
    assert target.read_bytes() == b"new"


def access_list(group: int) -> bytes:
    """An ACL as Linux has it in an extended attribute: owner rw, user 12345 r, group, mask rw, others none."""
    entries = [(1, 6, NO_ID), (2, 4, 12345), (4, group, NO_ID), (16, 6, NO_ID), (32, 0, NO_ID)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NO_ID = 0xFFFFFFFF
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"


def test_the_access_list_is_that_of_the_directory_or_of_the_old_file(tmp_path: Path) -> None:
    os.setxattr(tmp_path, DEFAULT, access_list(group=4))
    plain, target = tmp_path / "plain", tmp_path / "model.pte"
    plain.write_bytes(b"")
    write_files({target: content(b"x")})
    assert os.getxattr(target, ACCESS) == os.getxattr(plain, ACCESS)
    os.setxattr(target, ACCESS, access_list(group=0))
    write_files({target: content(b"y")})
    assert os.getxattr(target, ACCESS) == access_list(group=0)
    os.removexattr(target, ACCESS)
    target.chmod(0o640)
    write_files({target: content(b"z")})
    assert ACCESS not in os.listxattr(target)
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_failing_writer_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "model.pte"
    target.write_bytes(b"old")

    def fail(file: BinaryIO) -> None:
        file.write(b"half of it")
        raise ValueError("the writer's own error")

    with pytest.raises(ValueError, match="own error"):
        write_files({target: fail})
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_all_files_or_none(tmp_path: Path) -> None:
    first, second = tmp_path / "model.pte", tmp_path / "weights.ptd"

    def fail(file: BinaryIO) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(OutputFileError, match=r"model\.pte.*weights\.ptd.*No space left on device"):
        write_files({first: content(b"x" * 100), second: fail})
    assert list(tmp_path.iterdir()) == []
    assert write_files({first: content(b"a"), second: content(b"b")}) == (first, second)


def test_a_full_disk(tmp_path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does, with an error of the system."""
    target = tmp_path / "model.pte"
    target.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OutputFileError, match=r"cannot write .*model\.pte: File too large"):
            write_files({target: content(bytes(1 << 20))})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


SLOW_WRITER = """
import sys, time
from pathlib import Path
from trt_export.files.atomic import write_files

def write(file):
    for _ in range(1000):
        file.write(b"new" * 10000)
        file.flush()
        print("writing", flush=True)
        time.sleep(0.01)

write_files({Path(sys.argv[1]): write})
"""


@pytest.mark.parametrize("there_before", [True, False])
def test_a_kill_leaves_the_old_file_or_none(tmp_path: Path, there_before: bool) -> None:
    target = tmp_path / "model.pte"
    if there_before:
        target.write_bytes(b"old")
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW_WRITER, str(target)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for _ in range(5):
        assert process.stdout.readline() == "writing\n"
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert target.exists() == there_before
    assert not there_before or target.read_bytes() == b"old"
    leftovers = [path.name for path in tmp_path.iterdir() if path != target]
    assert all(name.startswith(".model.pte.") and name.endswith(".tmp") for name in leftovers)


def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(tmp_path: Path) -> None:
    target = tmp_path / "model.pte"
    script = SLOW_WRITER.replace("range(1000)", "range(3)").replace("0.01", "0")
    seen = set()
    for delay in (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.2):
        target.write_bytes(b"old")
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        process.kill()
        process.communicate()
        seen.add(target.read_bytes())
    assert seen <= {b"old", b"new" * 30000}


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (".", "it is a directory; name a file in it"),
        ("missing/model.pte", "there is no directory .*missing; make it first"),
        ("file/model.pte", "there is no directory"),
    ],
)
def test_places_that_cannot_be_written(tmp_path: Path, path: str, message: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputFileError, match=message):
        check_writable(tmp_path / path)
    with pytest.raises(OutputFileError, match=message):
        write_files({tmp_path / path: content(b"x")})


def test_a_directory_without_the_right_to_write() -> None:
    directory = Path("/proc/self")  # Not even root can make a file there.
    with pytest.raises(OutputFileError, match="cannot write into /proc/self"):
        check_writable(directory / "model.pte")
    assert os.getuid() >= 0


def test_a_device_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(OutputFileError, match="is no regular file"):
            write_files({path: lambda file: file.write(b"new")})
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


def test_a_link_is_followed_and_rights_are_kept(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_files({link: lambda file: file.write(b"new")})
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_read_only_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(b"old")
    path.chmod(0o444)
    with pytest.raises(OutputFileError, match="it is read-only; allow it with chmod"):
        write_files({path: lambda file: file.write(b"new")})
    assert path.read_bytes() == b"old"


def test_a_name_that_has_no_room_for_the_temporary_one_is_found_early(tmp_path: Path) -> None:
    with pytest.raises(OutputFileError, match="File name too long"):
        check_writable(tmp_path / ("n" * 249))
