"""`trt-runtime run --output`: what may be replaced, found out before the run."""

import os
import stat
import struct
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from trt_runtime import arrays as arrays_module
from trt_runtime.arrays import write_arrays
from trt_runtime.files import check_output, write_file

from .conftest import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def run(doubler: Path, tmp_path: Path, command: Command) -> Callable[..., Outcome]:
    np.savez(tmp_path / "in.npz", x=np.ones((3, 8), np.float32))
    return lambda output: command(
        "run", doubler, "--inputs", tmp_path / "in.npz", "--output", output
    )


def content(path: Path) -> list[str]:
    with np.load(path) as written:
        return list(written.files)


def test_what_is_no_regular_file_stays(
    run: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trt_runtime.cli.load", pytest.fail)  # it is found before the run
    fifo, link = tmp_path / "fifo", tmp_path / "link"
    os.mkfifo(fifo)
    link.symlink_to(fifo)
    for path in (fifo, link, Path("/dev/null")):
        before = path.lstat()
        code, _, err = run(path)
        assert (code, err.count("\n")) == (2, 1)
        assert f"expected a regular file, found {path}" in err
        assert path.lstat().st_ino == before.st_ino
        assert path.lstat().st_mode == before.st_mode


def test_a_link_is_followed_and_rights_are_kept(
    run: Callable[..., Outcome], tmp_path: Path
) -> None:
    target, link = tmp_path / "target.npz", tmp_path / "link.npz"
    link.symlink_to(target)
    assert run(link)[0] == 0  # to nothing yet
    target.chmod(0o640)
    assert run(link)[0] == 0
    assert link.is_symlink()
    assert content(target) == ["output_0"]
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


@pytest.mark.parametrize("umask", [0o000, 0o027, 0o077])
def test_a_new_file_has_the_rights_of_any_new_file(tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        (tmp_path / "plain").write_bytes(b"")
        write_file(tmp_path / "written", lambda file: file.write(b"x"))
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {0o666 & ~umask}


def test_the_umask_of_the_process_is_never_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that other threads make meanwhile would get the rights of another umask."""
    monkeypatch.setattr(os, "umask", lambda mask: pytest.fail(f"os.umask({mask:o})"))
    path = tmp_path / "out"
    for _ in range(2):
        check_output(path, {})
        write_file(path, lambda file: file.write(b"x"))


def test_threads_write_files_at_once_with_the_same_rights(tmp_path: Path) -> None:
    def work(number: int) -> None:
        for index in range(20):
            write_file(tmp_path / f"{number}-{index}", lambda file: file.write(b"x"))
            write_file(tmp_path / "one name for all", lambda file: file.write(b"x" * 1000))
            (tmp_path / f"{number}-{index}.plain").write_bytes(b"")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert len({stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}) == 1
    assert len(list(tmp_path.iterdir())) == 8 * 20 * 2 + 1


def test_the_access_list_is_that_of_the_folder_or_of_the_old_file(tmp_path: Path) -> None:
    access, default = "system.posix_acl_access", "system.posix_acl_default"
    no_id = 0xFFFFFFFF
    # Owner rw, user 12345 r, group r, mask rw, others none.
    entries = [(1, 6, no_id), (2, 4, 12345), (4, 4, no_id), (16, 6, no_id), (32, 0, no_id)]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(tmp_path, default, listed)
    plain, path = tmp_path / "plain", tmp_path / "out"
    plain.write_bytes(b"")
    write_file(path, lambda file: file.write(b"x"))
    assert os.getxattr(path, access) == os.getxattr(plain, access)
    os.setxattr(path, access, listed)
    write_file(path, lambda file: file.write(b"y"))
    assert os.getxattr(path, access) == listed
    os.removexattr(path, access)
    path.chmod(0o640)
    write_file(path, lambda file: file.write(b"z"))
    assert access not in os.listxattr(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_read_only_file_is_refused(run: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / "out.npz"
    path.write_text("as it was")
    path.chmod(0o444)
    code, _, err = run(path)
    assert code == 2
    assert "read-only; allow it with chmod u+w" in err
    assert path.read_text() == "as it was"


def test_a_file_that_is_read_is_refused(
    run: Callable[..., Outcome], doubler: Path, tmp_path: Path
) -> None:
    link = tmp_path / "hard.npz"
    link.hardlink_to(tmp_path / "in.npz")
    for path, what in (
        (doubler, "MODEL.pte"),
        (tmp_path / "in.npz", "--inputs"),
        (link, "--inputs"),
    ):
        before = path.read_bytes()
        code, _, err = run(path)
        assert code == 2
        assert f"expected another file than {what}" in err
        assert path.read_bytes() == before


def test_a_data_file_is_refused(doubler: Path, tmp_path: Path, command: Command) -> None:
    data = tmp_path / "plans.ptd"
    data.write_text("as it was")
    np.savez(tmp_path / "in.npz", x=np.ones((3, 8), np.float32))
    code, _, err = command(
        "run", doubler, "--data", data, "--inputs", tmp_path / "in.npz", "--output", data
    )
    assert code == 2
    assert "another file than --data" in err


@pytest.mark.parametrize("name", ["", "x" * 256, "x" * 5000, "folder", "a\0b"])
def test_a_place_that_is_none_is_refused(
    name: str, run: Callable[..., Outcome], tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    code, _, err = run(tmp_path / name if name else "")
    assert code == 2
    assert "--output: expected" in err
    assert len(err) < 1200


def test_the_longest_name_is_written(run: Callable[..., Outcome], tmp_path: Path) -> None:
    path = tmp_path / ("x" * 255)
    assert run(path)[0] == 0
    assert content(path) == ["output_0"]


def test_a_full_disk_names_the_users_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(file: object, **arrays: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/temporary")

    monkeypatch.setattr(arrays_module.np, "savez", full)
    path = tmp_path / "out.npz"
    with pytest.raises(OSError, match="No space left on device; nothing was written") as caught:
        write_arrays(path, [torch.ones(1)])
    assert caught.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []
