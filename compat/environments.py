"""The two halves in every version, their wheels, and one environment per pair.

Wheels of releases are built once and cached by the sdist's sha256 and the torch version, those of a working tree by a
digest of its files. Environments are made by uv, which links torch's files from its cache instead of copying them.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import releases

if sys.version_info >= (3, 11):
    import tomllib
else:  # nox brings tomli where Python has no tomllib
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".cache" / "compat"
DEV = "dev"
FOLDERS = {
    "trt-runtime": ROOT / "packages" / "runtime",
    "trt-export": ROOT / "packages" / "export",
}


def torch_source() -> list[str]:
    """Return uv's options on where torch comes from.

    That is pip's find-links folder where one is set, else PyTorch's own index, in the build that fits the machine (the
    CPU's where there is no GPU).
    """
    links = os.environ.get("PIP_FIND_LINKS")
    return ["--find-links", links] if links else ["--torch-backend", "auto"]


def build_requires(folder: Path) -> list[str]:
    """Return what the project in ``folder`` needs to be built."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())
    requires: list[str] = project["build-system"]["requires"]
    return requires


@dataclass(frozen=True)
class Half:
    """One version of one package: a released sdist, or the working tree (version ``dev``)."""

    package: str
    version: str
    source: Path
    digest: str


def halves(package: str) -> list[Half]:
    """Every release of ``package``, oldest first, then its working tree.

    Raises:
        releases.ReleaseError: a released file is not what it was.
    """
    released = [
        Half(package, release.version, releases.FOLDER / release.file, release.sha256)
        for release in releases.verify()
        if release.package == package
    ]
    return [*released, Half(package, DEV, FOLDERS[package], _tree_digest(FOLDERS[package]))]


def _tree_digest(folder: Path) -> str:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", str(folder)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout
    digest = hashlib.sha256()
    for name in sorted(filter(None, listed.decode().split("\0"))):
        path = ROOT / name
        if path.is_file():
            digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@dataclass(frozen=True)
class Installer:
    """Makes wheels and environments with uv.

    Args:
        torch: the exact requirement on torch, such as ``torch==2.13.0``.
    """

    torch: str

    def wheel(self, half: Half) -> Path:
        """Return the wheel of ``half``, from the cache if it is there."""
        key = f"{half.digest[:16]}-{self.torch.replace('==', '-')}-py{sys.version_info[1]}"
        folder = CACHE / "wheels" / half.package / key
        if not any(folder.glob("*.whl")):
            draft = folder.with_suffix(".part")
            shutil.rmtree(draft, ignore_errors=True)
            self._build(half, draft)
            draft.rename(folder)
        (wheel,) = folder.glob("*.whl")
        return wheel

    def _build(self, half: Half, out: Path) -> None:
        # One environment builds all wheels: an isolated build would link torch anew for each.
        builder = CACHE / "builder"
        if not builder.exists():
            self._uv("venv", "-q", "--python", sys.executable, str(builder))
        source, unpacked = half.source, CACHE / "unpacked" / half.digest[:16]
        if source.is_file():
            shutil.rmtree(unpacked, ignore_errors=True)
            shutil.unpack_archive(source, unpacked, filter="data")
            (source,) = unpacked.iterdir()
        self.install(builder, self.torch, *build_requires(source))
        self._uv(
            *("build", "-q", "--wheel", "--no-build-isolation", "-o", str(out), str(source)),
            environment=builder,
        )

    def environment(self, folder: Path, *what: str, bytecode: Path | None = None) -> Path:
        """Make an environment anew in ``folder`` and install ``what``; return its Python.

        What ``bytecode``, another environment, has compiled already need not be compiled here again.
        """
        shutil.rmtree(folder, ignore_errors=True)
        self._uv("venv", "-q", "--python", sys.executable, str(folder))
        self.install(folder, self.torch, *what)
        if bytecode is not None:
            _share_bytecode(bytecode, folder)
        return folder / "bin" / "python"

    def install(self, environment: Path, *what: str) -> None:
        """Install requirements or wheels into an environment."""
        self._uv("pip", "install", "-q", *torch_source(), *what, environment=environment)

    def _uv(self, *arguments: str, environment: Path | None = None) -> None:
        variables = {**os.environ}
        variables.pop("VIRTUAL_ENV", None)
        if environment is not None:
            variables["VIRTUAL_ENV"] = str(environment)
        done = subprocess.run(
            ["uv", *arguments], env=variables, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise EnvironmentFailedError(f"uv {' '.join(arguments)}\n{done.stdout}{done.stderr}")


def _share_bytecode(source: Path, target: Path) -> None:
    """Link the bytecode of every module that both environments have: half of a cell's time is compiling torch.

    The module must be one and the same file in both, as uv links it. Python itself would compare size and time of
    modification only, and all files of our wheels have the same time.
    """
    for compiled in source.glob("lib/python*/site-packages/**/__pycache__/*.pyc"):
        link = target / compiled.relative_to(source)
        module = f"{compiled.name.partition('.')[0]}.py"
        theirs, ours = compiled.parents[1] / module, link.parents[1] / module
        if ours.exists() and theirs.exists() and ours.samefile(theirs) and not link.exists():
            link.parent.mkdir(exist_ok=True)
            link.hardlink_to(compiled)


class EnvironmentFailedError(RuntimeError):
    """uv could not build a wheel or fill an environment; the message has what it said."""
