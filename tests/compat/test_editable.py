"""An environment to work in has one half from its sources, the other from a release, and what a rebuild needs."""

from dataclasses import dataclass, field
from pathlib import Path

import editable
import pytest
from environments import DEV, FOLDERS, Half, Installer, build_requires


@dataclass(frozen=True)
class Recorder(Installer):
    """Installs nothing and keeps what it was asked for."""

    calls: list[tuple[str, ...]] = field(default_factory=list)

    def wheel(self, half: Half) -> Path:
        return Path(f"{half.package}-{half.version}.whl")

    def environment(self, folder: Path, *what: str, bytecode: Path | None = None) -> Path:
        self.calls.append(what)
        return folder / "bin" / "python"

    def install(self, environment: Path, *what: str) -> None:
        self.calls.append(what)


@pytest.mark.parametrize(
    ("mine", "other"), [("trt-runtime", "trt-export"), ("trt-export", "trt-runtime")]
)
def test_both_halves_are_installed_at_once_after_what_the_build_needs(
    tmp_path: Path, mine: str, other: str
) -> None:
    installer = Recorder("torch==2.13.0")
    source = FOLDERS[mine]
    python = editable.set_up(
        installer,
        tmp_path,
        Half(mine, DEV, source, "digest"),
        Half(other, "1.0.0", Path("sdist.tar.gz"), "digest"),
    )
    assert python == tmp_path / "bin" / "python"
    tools, halves = installer.calls
    # The command that a stale library is rebuilt with is pip's and isolates no build.
    assert {*build_requires(source), "pip"} <= set(tools)
    assert halves == ("--no-build-isolation", "-e", str(source), f"{other}-1.0.0.whl")
