"""The native library that registered an engine's class: which file is loaded, of which version."""

import importlib.metadata
import mmap
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

_DELETED = " (deleted)"  # The kernel says so of a file that was replaced after it was loaded.


@dataclass(frozen=True)
class _Origin:
    """Where a class comes from, and the first release with all capabilities."""

    files: tuple[str, ...]
    module: str
    distribution: str
    complete_since: str


_ORIGINS = {
    "trt_runtime.Engine": _Origin(("libtrt_runtime.so",), "trt_runtime", "trt-runtime", "0.5.0"),
    "tensorrt.Engine": _Origin(
        ("libtorchtrt.so", "libtorchtrt_runtime.so"), "torch_tensorrt", "torch-tensorrt", "2.14"
    ),
}


@dataclass(frozen=True)
class EngineLibrary:
    """A loaded library. What cannot be found out is None.

    `remedy` is the command that installs a release with every capability.
    """

    path: str | None
    distribution: str | None
    version: str | None
    remedy: str | None

    def __str__(self) -> str:
        """For messages: the file, and the package that it belongs to."""
        package = f"{self.distribution or 'unknown package'} {self.version or 'of unknown version'}"
        return f"{self.path or 'unknown file'} ({package})"


def engine_library(engine_class: str) -> EngineLibrary:
    """The library that this process has loaded for a class such as `trt_runtime.Engine`."""
    origin = _ORIGINS.get(engine_class)
    if origin is None:
        return EngineLibrary(_registering_file(engine_class), None, None, None)
    path = next((path for path in _loaded() if _file_name(path) in origin.files), None)
    return EngineLibrary(
        path or _registering_file(engine_class),
        origin.distribution,
        _version(origin),
        f"pip install -U '{origin.distribution}>={origin.complete_since}'",
    )


def _loaded() -> Iterator[str]:
    """Libraries in this process, those that torch was asked to load first."""
    yield from sorted(torch.ops.loaded_libraries)
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    for line in maps.splitlines():
        fields = line.split(maxsplit=5)
        if len(fields) == 6 and fields[5].startswith("/"):
            yield fields[5]


def _file_name(path: str) -> str:
    return Path(path.removesuffix(_DELETED)).name


def _registering_file(engine_class: str) -> str | None:
    """The one that names the class, among the libraries that torch was asked to load."""
    name = f"torch.classes.{engine_class}".encode()
    return next((path for path in sorted(torch.ops.loaded_libraries) if _holds(path, name)), None)


def _holds(path: str, text: bytes) -> bool:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(text) >= 0
    except (OSError, ValueError):
        return False


def _version(origin: _Origin) -> str | None:
    """That of the module in this process; an install may have changed since it was imported."""
    version = getattr(sys.modules.get(origin.module), "__version__", None)
    if version is not None:
        return str(version)
    try:
        return importlib.metadata.version(origin.distribution)
    except importlib.metadata.PackageNotFoundError:
        return None
