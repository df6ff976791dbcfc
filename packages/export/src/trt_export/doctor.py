"""`trt-export doctor`: what is installed, what works, and the command that mends what does not."""

import importlib
import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterator
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Package:
    """A package that is needed; `problem` if it is missing or cannot be imported."""

    name: str
    version: str | None
    problem: str | None = None
    remedy: str | None = None


@dataclass(frozen=True)
class Option:
    """A capability, a builder or an executor: whether it is there, else why not and what would change that."""

    name: str
    available: bool
    detail: str
    remedy: str | None = None


@dataclass(frozen=True)
class Report:
    """What `doctor` found.

    `runtime_library` is the file that this process has loaded. A capability that its engines lack costs time and
    memory; the detail says what.
    """

    python: str
    platform: str
    packages: tuple[Package, ...]
    runtime_library: str | None
    runtime_version: str | None
    capabilities: tuple[Option, ...]
    builders: tuple[Option, ...]
    executors: tuple[Option, ...]
    gpus: tuple[str, ...]
    no_gpu_reason: str | None

    @property
    def healthy(self) -> bool:
        """Whether everything that is needed works, and none of it falls back to something slower.

        Builders and executors that are not there do not count.
        """
        return all(package.problem is None for package in self.packages) and all(
            capability.available for capability in self.capabilities
        )

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
        version = f" (version {self.runtime_version or 'unknown'})" if self.runtime_library else ""
        yield f"runtime library: {self.runtime_library or 'none loaded'}{version}"
        for title, options in (
            ("capability", self.capabilities),
            ("builder", self.builders),
            ("executor", self.executors),
        ):
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
    library, version, capabilities = _runtime()
    return Report(
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        packages=(Package("trt-export", _version("trt-export")), *packages),
        runtime_library=library,
        runtime_version=version,
        capabilities=capabilities,
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


def _runtime() -> tuple[str | None, str | None, tuple[Option, ...]]:
    """The loaded runtime's file and version, and what one of its engines answers when it is probed."""
    try:
        from trt_export.engines.library import engine_library
        from trt_export.engines.probe import CAPABILITIES, probe

        capabilities = probe(_engine())
    except Exception as error:  # The packages that are broken are listed with their own errors.
        text = f"no engine could be made to ask: {type(error).__name__}: {error}"
        return None, None, (Option("all", False, text),)
    library = engine_library(capabilities.engine_class)
    found = {item.capability: item.found for item in capabilities.missing}
    options = tuple(
        Option(item.name, False, f"{found[item]}: {item.cost}", library.remedy)
        if item in found
        else Option(item.name, True, f"{item.method}()")
        for item in CAPABILITIES
    )
    return library.path, library.version, options


def _engine() -> object:
    """An engine that is never run, over an empty ONNX model."""
    import trt_runtime
    from trt_export.plan import write_onnxruntime_plan

    binding = {"name": "in_0", "dtype": "float32", "shape": [1]}
    record = {
        "name": "doctor",
        "device": "cpu",
        "inputs": [{**binding, "min": [1], "opt": [1], "max": [1]}],
        "outputs": [{**binding, "name": "out_0"}],
        "provenance": {},
    }
    return trt_runtime.Engine.from_plan(write_onnxruntime_plan([], {}), record)


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
