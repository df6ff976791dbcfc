"""Set up an environment to work in: one half editable, over the newest release of the other.

    python compat/editable.py --torch torch==2.13.0 trt-export trt-runtime

The environment stays in ``.venv-dev-export`` or ``.venv-dev-runtime``. The scenarios run in it, so that it is known to
work; what they found is judged as a cell of the matrix is.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from environments import CACHE, DEV, FOLDERS, ROOT, Half, Installer, build_requires, halves
from judging import judge
from run import TENSORRT_RTX, lower_in, make_plans


def main() -> int:
    """Set up and try; 0 if the scenarios found what they must."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--torch", required=True, help="exact requirement, such as torch==2.13.0")
    parser.add_argument("editable", choices=FOLDERS)
    parser.add_argument("released", choices=FOLDERS)
    arguments = parser.parse_args()
    installer = Installer(arguments.torch)
    both = {package: halves(package) for package in FOLDERS}
    mine, other = both[arguments.editable][-1], both[arguments.released][-2]
    folder = ROOT / f".venv-dev-{mine.package.removeprefix('trt-')}"
    python = set_up(installer, folder, mine, other)
    plans = make_plans(installer, *(both[package][-1] for package in FOLDERS))
    versions = {mine.package: DEV, other.package: other.version}
    facts = lower_in(
        python, plans, CACHE / "programs-editable", versions["trt-runtime"], versions["trt-export"]
    )
    (verdict,) = judge([facts])
    where = folder.relative_to(ROOT)
    print(f"{where}: {mine.package} editable, {other.package} {other.version}: {verdict}")
    print(f"work in it with: source {where}/bin/activate")
    return 1 if verdict.outcome == "FAILED" else 0


def set_up(installer: Installer, folder: Path, mine: Half, other: Half) -> Path:
    """Make the environment and return its Python. A build needs its tools there to be repeated."""
    # hatchling asks for `editables` only when it makes an editable install, and then too late.
    tools = [*build_requires(mine.source), "editables>=0.5,<1", "pip"]
    python = installer.environment(folder, *tools, TENSORRT_RTX)
    # Both at once: neither is on an index, and the exporter asks for a runtime.
    installer.install(
        folder, "--no-build-isolation", "-e", str(mine.source), str(installer.wheel(other))
    )
    return python


if __name__ == "__main__":
    sys.exit(main())
