"""Checks that the native library fits this process, then loads it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from .errors import LibraryMismatchError

_EDITABLE_REBUILD = "pip install --no-build-isolation -e {package}"


def check_torch(built_for: str, running: str) -> None:
    """Check that a library compiled for one torch may be loaded into another.

    A mismatch has to be found here: the dynamic linker finds no missing symbol between minors, the
    library loads, and objects of different layout meet.

    Args:
        built_for: the torch version that the library was compiled against, such as ``2.13.0+cpu``.
        running: the version of the torch in this process.

    Raises:
        LibraryMismatchError: the two are not of the same minor.

    """
    if _minor(built_for) == _minor(running):
        return
    minor = _minor(built_for)
    raise LibraryMismatchError(
        f"trt-runtime: expected torch {minor}.*, for which its native library was built, found torch "
        f"{running}; install a matching torch (pip install 'torch=={minor}.*') or the trt-runtime "
        "release for yours (pip install -U trt-runtime)"
    )


def _minor(version: str) -> str:
    match = re.match(r"\d+\.\d+", version)
    return match.group() if match else version


def source_hash(folder: Path) -> str:
    """Hash the native sources in ``folder`` the way CMakeLists.txt does when it builds them."""
    digests = sorted(
        f"{path.relative_to(folder).as_posix()} {hashlib.sha256(path.read_bytes()).hexdigest()}\n"
        for path in folder.rglob("*")
        if path.is_file()
    )
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def warn_if_stale(built_from: str, package: Path) -> None:
    """Warn if ``package`` holds native sources other than those that the library was built from.

    Only an editable install has the sources beside it; there an edit of C++ has no effect until the
    next build, and nothing else would say so.
    """
    native = package / "native"
    if not native.is_dir() or source_hash(native) == built_from:
        return
    warnings.warn(
        f"trt-runtime: expected a native library built from {native}, found one built from other "
        f"sources; rebuild it: {_EDITABLE_REBUILD.format(package=package)}",
        RuntimeWarning,
        stacklevel=2,
    )


def load() -> ModuleType:
    """Load the native library and return its module ``_native``. Loading twice is harmless.

    Raises:
        LibraryMismatchError: the library was built for another torch, or does not load.

    """
    import torch  # its libraries must be in the process before ours

    build = _build_info()
    check_torch(build["torch"], torch.__version__)
    try:
        from . import _native
    except ImportError as error:
        raise LibraryMismatchError(
            f"trt-runtime {build['version']}: expected a native library that loads beside torch "
            f"{torch.__version__} (built for {build['torch']}), found: {error}; likely a torch from "
            "another source or a half-finished install: pip install --force-reinstall --no-deps "
            "trt-runtime"
        ) from error
    warn_if_stale(build["native_sha256"], Path(__file__).parents[2])
    return _native


def _build_info() -> Mapping[str, str]:
    """What CMake wrote beside the library: it must be read before the library may be loaded."""
    # In an editable install the library is not beside this file.
    spec = importlib.util.find_spec("trt_runtime._native")
    if spec is None or spec.origin is None:
        raise LibraryMismatchError(
            f"trt-runtime: expected the native library beside {__file__}, found none; this is a "
            "source tree or a broken install: pip install --force-reinstall trt-runtime"
        )
    info: Mapping[str, str] = json.loads(Path(spec.origin).with_name("build_info.json").read_text())
    return info
