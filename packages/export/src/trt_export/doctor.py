"""`trt-export doctor`: what is installed, what works, and the command that mends what does not."""

import importlib
import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from trt_export.errors import TrtExportError

# Without these nothing works: distribution, module to import.
_NEEDED = (
    ("torch", "torch"),
    ("executorch", "executorch.exir"),
    ("onnx", "onnx"),
    ("onnxscript", "onnxscript"),
    ("onnxruntime", "onnxruntime"),
    ("trt-runtime", "trt_runtime"),
)
_LIBRARY = "libtrt_runtime.so"


@dataclass(frozen=True)
class Package:
    """A package that is needed; `problem` if it is missing or cannot be imported."""

    name: str
    version: str | None
    problem: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Option:
    """A builder or an executor: whether it can be used here, else why not and what would change that."""

    name: str
    available: bool
    detail: str
    remedy: str | None = None


@dataclass(frozen=True)
class Report:
    """What `doctor` found. `runtime_library` is the file that this process has loaded."""

    python: str
    platform: str
    packages: tuple[Package, ...]
    runtime_library: str | None
    builders: tuple[Option, ...]
    executors: tuple[Option, ...]
    gpus: tuple[str, ...]
    no_gpu_reason: str | None

    @property
    def healthy(self) -> bool:
        """Whether everything that is needed works; builders and executors that are not there do not count."""
        return all(package.problem is None for package in self.packages)

    def lines(self) -> list[str]:
        """The same for people."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"python {self.python} on {self.platform}"
        for package in self.packages:
            if package.problem is None:
                yield f"{package.name} {package.version}"
            else:
                yield f"BROKEN {package.name} {package.version or '(not installed)'}: {package.problem}"
                yield f"  {package.remedy}"
        yield f"runtime library: {self.runtime_library or 'none loaded'}"
        for title, options in (("builder", self.builders), ("executor", self.executors)):
            for option in options:
                yield f"{title} {option.name}: {'yes' if option.available else 'no'}, {option.detail}"
                if option.remedy:
                    yield f"  {option.remedy}"
        for gpu in self.gpus:
            yield f"GPU {gpu}"
        if self.no_gpu_reason:
            yield f"no GPU: {self.no_gpu_reason}"


def examine() -> Report:
    """Import what is needed and look at what is there; takes some seconds."""
    packages = tuple(_package(name, module) for name, module in _NEEDED)
    gpus, reason = _gpus()
    return Report(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=(Package("trt-export", _version("trt-export")), *packages),
        runtime_library=_runtime_library(),
        builders=_builders(),
        executors=_executors(gpus, reason),
        gpus=gpus,
        no_gpu_reason=reason,
    )


def _package(name: str, module: str) -> Package:
    version = _version(name)
    try:
        importlib.import_module(module)
    except (
        Exception
    ) as error:  # A broken package raises anything: OSError for a missing symbol, its own errors.
        text = f"{type(error).__name__}: {error}"
        option = "--force-reinstall --no-deps " if version else ""
        return Package(name, version, text, f"pip install {option}{name}")
    return Package(name, version)


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _runtime_library() -> str | None:
    """The library as the process has it mapped, which need not be the one beside the package."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return None
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines())
    return next((path for path in paths if Path(path).name == _LIBRARY), None)


def _builders() -> tuple[Option, ...]:
    try:
        from trt_export.builders import BUILDER_NAMES, get_builder
    except ImportError as error:
        return (Option("all", False, f"cannot be imported: {error}"),)
    options = []
    for name in BUILDER_NAMES:
        try:
            provenance = get_builder(name).provenance()
            options.append(Option(name, True, f"version {provenance['builder_version']}"))
        except TrtExportError as error:
            options.append(Option(name, False, str(error)))
    return tuple(options)


def _executors(gpus: tuple[str, ...], reason: str | None) -> tuple[Option, ...]:
    options = []
    for name, module in (
        ("onnxruntime", "onnxruntime"),
        ("tensorrt-rtx", "tensorrt_rtx"),
        ("tensorrt", "tensorrt"),
    ):
        if importlib.util.find_spec(module) is None:
            remedy = f'pip install "trt-runtime[{name}]"'
            options.append(Option(name, False, f"the package {name} is not installed", remedy))
        elif name != "onnxruntime" and not gpus:
            options.append(Option(name, False, f"it needs a GPU: {reason}"))
        else:
            options.append(Option(name, True, f"version {_version(name) or 'unknown'}"))
    return tuple(options)


def _gpus() -> tuple[tuple[str, ...], str | None]:
    """The GPUs that torch sees, or the reason why there are none."""
    try:
        import torch
    except ImportError as error:
        return (), f"torch cannot be imported: {error}"
    if torch.version.cuda is None:
        return (), f"torch {torch.__version__} is a build for the CPU"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except (RuntimeError, AssertionError) as error:
        return (), str(error).splitlines()[0]
    return tuple(
        f"{index}: {torch.cuda.get_device_name(index)},"
        f" compute capability {'.'.join(map(str, torch.cuda.get_device_capability(index)))}"
        for index in range(torch.cuda.device_count())
    ), None
