"""Released files are what their table says, and nobody can make one twice or change one."""

import io
import tarfile
from pathlib import Path

import pytest
import releases


def make_sdist(
    folder: Path, name: str = "half", version: str = "1.0.0", extra: bytes = b""
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    info = (
        f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\nRequires-Python: >=3.10\n"
        "Requires-Dist: torch<2.14,>=2.13\n"
        "Requires-Dist: gpu-thing<2; extra == 'gpu'\n"
        'Requires-Dist: other<2; sys_platform == "linux"\n\n'
    ).encode() + extra
    with tarfile.open(path, "w:gz") as archive:
        member = tarfile.TarInfo(f"{name}-{version}/PKG-INFO")
        member.size = len(info)
        archive.addfile(member, io.BytesIO(info))
    return path


@pytest.fixture
def store(tmp_path: Path) -> dict[str, Path]:
    (tmp_path / "releases").mkdir()
    return {"folder": tmp_path / "releases", "table": tmp_path / "releases.toml"}


def test_the_released_files_of_this_repository_are_untouched() -> None:
    made = {(release.package, release.version) for release in releases.verify()}
    assert {("trt-runtime", "0.1.0"), ("trt-export", "0.1.0")} <= made


def test_a_release_is_read_back_as_it_was_added(tmp_path: Path, store: dict[str, Path]) -> None:
    added = releases.add("half", "1.0.0", make_sdist(tmp_path / "out"), **store)
    second = releases.add("half", "1.1.0", make_sdist(tmp_path / "out", version="1.1.0"), **store)
    assert releases.verify(**store) == [added, second]
    assert added.python == ">=3.10"
    assert added.requires == (
        "torch<2.14,>=2.13",
        "gpu-thing<2; extra == 'gpu'",
        'other<2; sys_platform == "linux"',
    )


def test_a_release_is_never_made_twice(tmp_path: Path, store: dict[str, Path]) -> None:
    releases.add("half", "1.0.0", make_sdist(tmp_path / "out"), **store)
    before = (store["table"].read_bytes(), (store["folder"] / "half-1.0.0.tar.gz").read_bytes())
    with pytest.raises(releases.ReleaseError, match="released already"):
        releases.add("half", "1.0.0", make_sdist(tmp_path / "other", extra=b"changed"), **store)
    assert before == (
        store["table"].read_bytes(),
        (store["folder"] / "half-1.0.0.tar.gz").read_bytes(),
    )


def test_a_file_without_a_row_is_not_overwritten(tmp_path: Path, store: dict[str, Path]) -> None:
    (store["folder"] / "half-1.0.0.tar.gz").write_bytes(b"somebody's")
    with pytest.raises(releases.ReleaseError, match="never overwritten"):
        releases.add("half", "1.0.0", make_sdist(tmp_path / "out"), **store)
    assert (store["folder"] / "half-1.0.0.tar.gz").read_bytes() == b"somebody's"


def test_an_sdist_of_another_version_is_refused(tmp_path: Path, store: dict[str, Path]) -> None:
    with pytest.raises(releases.ReleaseError, match=r"half 1\.0\.0, expected half 2\.0\.0"):
        releases.add("half", "2.0.0", make_sdist(tmp_path / "out"), **store)
    assert not store["table"].exists()


def test_every_kind_of_disagreement_is_listed(tmp_path: Path, store: dict[str, Path]) -> None:
    for version in ("1.0.0", "1.1.0"):
        releases.add("half", version, make_sdist(tmp_path / "out", version=version), **store)
    (store["folder"] / "half-1.0.0.tar.gz").write_bytes(b"edited")
    (store["folder"] / "half-1.1.0.tar.gz").unlink()
    (store["folder"] / "stray.whl").write_bytes(b"")
    with pytest.raises(releases.ReleaseError) as caught:
        releases.verify(**store)
    text = str(caught.value)
    assert "half-1.0.0.tar.gz: sha256 is" in text
    assert "half-1.1.0.tar.gz: missing" in text
    assert "stray.whl: not in" in text


@pytest.mark.parametrize(
    ("declared", "changelog", "complaint"),
    [
        ("1.0.1", "## 1.0.0 (2026-01-01)", "says version 1.0.1, expected 1.0.0"),
        ("1.0.0", "## 0.9.0 (2026-01-01)", "has no section '## 1.0.0 "),
    ],
)
def test_a_version_is_ready_when_project_and_changelog_name_it(
    tmp_path: Path, store: dict[str, Path], declared: str, changelog: str, complaint: str
) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[project]\nversion = "{declared}"\n')
    (tmp_path / "CHANGELOG.md").write_text(f"# Changes\n\n{changelog}\n")
    with pytest.raises(releases.ReleaseError, match=complaint):
        releases.check_new("half", "1.0.0", tmp_path, store["table"])
