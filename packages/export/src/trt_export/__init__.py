"""Compile PyTorch programs to engines, and lower them to ExecuTorch `.pte` files.

    program = trt_export.compile(torch.export.export(model, inputs))
    edge = trt_export.to_edge(program)
    trt_export.save(edge, "model.pte")

What a name needs is imported when the name is first used: ExecuTorch and torch.onnx take seconds.
"""

from trt_export import interrupts as _interrupts  # isort: skip  # noqa: F401 - handles Ctrl-C from here on

from importlib import import_module
from typing import TYPE_CHECKING

from trt_export.errors import FallbackWarning, TrtExportError

if TYPE_CHECKING:
    from trt_export.compiling import compile
    from trt_export.edge import save, to_edge
    from trt_export.engines.probe import EngineCapabilities, probe
    from trt_export.inspecting import info

__version__ = "0.4.0"

__all__ = [
    "EngineCapabilities",
    "FallbackWarning",
    "TrtExportError",
    "__version__",
    "compile",
    "info",
    "probe",
    "save",
    "to_edge",
]

_HOMES = {
    "EngineCapabilities": "trt_export.engines.probe",
    "compile": "trt_export.compiling",
    "info": "trt_export.inspecting",
    "probe": "trt_export.engines.probe",
    "save": "trt_export.edge",
    "to_edge": "trt_export.edge",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
