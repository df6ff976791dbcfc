"""The released sdists of both packages: which there are, that nobody edited one, and how a new one is added.

``compat/releases.toml`` has one ``[[release]]`` table per release: ``package``, ``version``, ``file`` (in
``compat/releases``), ``sha256``, ``date`` (UTC), ``python`` and ``requires`` (both from the sdist's own metadata).
A file is never changed afterwards.
"""

from __future__ import annotations

import datetime
import email
import hashlib
import os
import shutil
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:  # nox brings tomli where Python has no tomllib
    import tomli as tomllib

HERE = Path(__file__).parent
FOLDER = HERE / "releases"
TABLE = HERE / "releases.toml"


class ReleaseError(RuntimeError):
    """A release is missing, was edited, exists already, or is not ready to be made."""


@dataclass(frozen=True)
class Release:
    """One released sdist; the fields are those of the table."""

    package: str
    version: str
    file: str
    sha256: str
    date: str
    python: str
    requires: tuple[str, ...]


def read(table: Path = TABLE) -> list[Release]:
    """Return the releases in the order in which they were made."""
    if not table.exists():
        return []
    entries = tomllib.loads(table.read_text())["release"]
    return [Release(**{**entry, "requires": tuple(entry["requires"])}) for entry in entries]


def verify(folder: Path = FOLDER, table: Path = TABLE) -> list[Release]:
    """Return the releases after checking that files and table agree, byte for byte.

    Raises:
        ReleaseError: a file is missing, has another sha256, or is in no table row; lists every one.
    """
    found = read(table)
    wrong = []
    for release in found:
        path = folder / release.file
        if not path.exists():
            wrong.append(f"{release.file}: missing; bring it back with git checkout -- {path}")
        elif (digest := _sha256(path)) != release.sha256:
            wrong.append(
                f"{release.file}: sha256 is {digest}, expected {release.sha256}; a release is never edited: "
                f"git checkout -- {path}, and make a new release for a change"
            )
    unknown = {path.name for path in folder.glob("*")} - {release.file for release in found}
    wrong += [
        f"{name}: not in {table.name}; make releases with nox -s release"
        for name in sorted(unknown)
    ]
    if wrong:
        raise ReleaseError("released files and their table disagree:\n  " + "\n  ".join(wrong))
    return found


def check_new(package: str, version: str, source: Path, table: Path = TABLE) -> None:
    """Raise ReleaseError unless ``version`` of ``package`` can be released from the folder ``source``."""
    _check_unreleased(package, version, table)
    declared = tomllib.loads((source / "pyproject.toml").read_text())["project"]["version"]
    if declared != version:
        raise ReleaseError(
            f"{source / 'pyproject.toml'} says version {declared}, expected {version}"
        )
    if not any(
        line.startswith(f"## {version} ")
        for line in (source / "CHANGELOG.md").read_text().splitlines()
    ):
        raise ReleaseError(f"{source / 'CHANGELOG.md'} has no section '## {version} (date)'")


def add(
    package: str, version: str, sdist: Path, folder: Path = FOLDER, table: Path = TABLE
) -> Release:
    """Copy ``sdist`` into the releases and append its row.

    Raises:
        ReleaseError: the version is in the table already, the file exists, or the sdist says another name or version.
    """
    metadata = _metadata(sdist)
    if (metadata["Name"], metadata["Version"]) != (package, version):
        raise ReleaseError(
            f"{sdist.name} is {metadata['Name']} {metadata['Version']}, expected {package} {version}"
        )
    _check_unreleased(package, version, table)
    target = folder / sdist.name
    if target.exists():
        raise ReleaseError(
            f"{target} exists already and is never overwritten; choose a new version"
        )
    release = Release(
        package=package,
        version=version,
        file=sdist.name,
        sha256=_sha256(sdist),
        date=datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        python=metadata["Requires-Python"] or "",
        requires=tuple(metadata.get_all("Requires-Dist") or ()),
    )
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(sdist, target)
    rows = (table.read_text() if table.exists() else _PREAMBLE) + _row(release)
    draft = table.with_suffix(".tmp")
    draft.write_text(rows)
    os.replace(draft, table)
    return release


def _check_unreleased(package: str, version: str, table: Path) -> None:
    if (package, version) in {(release.package, release.version) for release in read(table)}:
        raise ReleaseError(
            f"{package} {version} is released already and never changes; choose a new version"
        )


def rank(version: str) -> tuple[int, ...]:
    """Return what orders released versions: 0.10.0 is newer than 0.2.0."""
    return tuple(int(part) for part in version.split(".")[:3])


_PREAMBLE = "# Written by nox -s release; rows are only added (compat/releases.py checks files against it).\n"


def _row(release: Release) -> str:
    # Metadata values hold double quotes at most inside markers, which TOML's literal strings take as they are, or
    # single quotes, which its basic strings take: choose per value.
    def text(value: str) -> str:
        return f"'{value}'" if '"' in value else f'"{value}"'

    lines = [
        f"{key} = {text(getattr(release, key))}"
        for key in ("package", "version", "file", "sha256", "date", "python")
    ]
    requires = "".join(f"  {text(requirement)},\n" for requirement in release.requires)
    return "\n[[release]]\n" + "\n".join(lines) + f"\nrequires = [\n{requires}]\n"


def _metadata(sdist: Path) -> email.message.Message:
    with tarfile.open(sdist) as archive:
        names = [
            name
            for name in archive.getnames()
            if name.count("/") == 1 and name.endswith("/PKG-INFO")
        ]
        member = archive.extractfile(names[0]) if names else None
        if member is None:
            raise ReleaseError(f"{sdist.name} holds no PKG-INFO: it is no sdist")
        return email.message_from_bytes(member.read())


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    for release in verify():
        print(f"{release.package} {release.version} {release.sha256}")
