"""What an engine object can do, asked of the object itself and never guessed from a version.

This is the one module that asks; everything else is told. The methods have the names that torch-tensorrt 2.14
uses, so its engines are probed the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from trt_export.errors import EngineObjectError

OWN_CLASS = "trt_runtime.Engine"
FOREIGN_CLASS = "tensorrt.Engine"  # torch-tensorrt's

_CLASSES = "__torch__.torch.classes."
_REAL = "real"


@dataclass(frozen=True)
class Capability:
    """Something that an engine may or may not be able to do.

    `method` is the method that has it, `cost` what is done in its place.
    """

    name: str
    method: str
    cost: str


TRACING_MODE_REAL = Capability(
    "tracing-mode-real",
    "tracing_mode",
    "torch.export, run_decompositions and the like serialize every engine twice and deserialize it once",
)
METADATA_ONLY = Capability(
    "metadata-only",
    "serialize_metadata_only",
    "to_edge reads each engine's record by serializing the whole engine in base64",
)
ENGINE_TENSOR = Capability(
    "engine-tensor",
    "serialized_engine_tensor",
    "to_edge gets each engine's plan by serializing it in base64 and decoding it into a copy",
)
PLAN_DIGEST = Capability(
    "plan-digest",
    "plan_sha256",
    "to_edge reads each engine's plan once more, for its sha256",
)
NAMED_DATA_DELEGATE = Capability(
    "named-data-delegate",
    "capabilities",
    "to_edge copies each engine's plan into the payload of its delegate, the form that this runtime runs (tr01)",
)
# Those with a method that torch-tensorrt has too; the rest is asked of our own engines only.
SHARED_CAPABILITIES = (TRACING_MODE_REAL, METADATA_ONLY, ENGINE_TENSOR)
CAPABILITIES = (*SHARED_CAPABILITIES, PLAN_DIGEST, NAMED_DATA_DELEGATE)


@dataclass(frozen=True)
class MissingCapability:
    """A capability that an engine lacks, and what was found in its place."""

    capability: Capability
    found: str


@dataclass(frozen=True)
class EngineCapabilities:
    """What engines of a class can do.

    `engine_class` is the class as `torch.classes` has it, such as `trt_runtime.Engine`; `names` are the
    capabilities that it has among those that this version of trt-export knows, `missing` those that a newer release
    of its library has. One that is newer than this version may have more.
    """

    engine_class: str
    names: frozenset[str]
    missing: tuple[MissingCapability, ...]

    def __contains__(self, capability: Capability | str) -> bool:
        name = capability.name if isinstance(capability, Capability) else capability
        return name in self.names


_methods: dict[str, frozenset[str]] = {}


def probe(engine: object) -> EngineCapabilities:
    """Ask an engine what it can do.

    Args:
        engine: the TorchBind object of a program, a `trt_runtime.Engine`, or what torch wraps either in.

    Raises:
        EngineObjectError: it is none of these.
    """
    real = unwrap(engine)
    if not isinstance(real, torch.ScriptObject):
        raise EngineObjectError(
            f"expected an engine (a TorchBind object, or a trt_runtime.Engine), found a {type(real).__name__}"
        )
    name = class_name(real)
    if name not in _methods:  # torch registers a class once, with all of its methods.
        has: Callable[[str], bool] = real._has_method  # type: ignore[attr-defined]
        _methods[name] = frozenset(item.method for item in CAPABILITIES if has(item.method))
    possible = SHARED_CAPABILITIES if name == FOREIGN_CLASS else CAPABILITIES
    missing = tuple(
        MissingCapability(capability, found)
        for capability in possible
        if (found := _obstacle(real, capability, _methods[name])) is not None
    )
    lacking = {item.capability.name for item in missing}
    names = frozenset(capability.name for capability in possible) - lacking
    return EngineCapabilities(name, names, missing)


def unwrap(value: Any) -> Any:
    """The TorchBind object in whatever holds it; a value that holds none is returned as it is.

    A FakeScriptObject answers for the methods of its fake class only, so the real one has to be asked.
    """
    for attribute in ("script_object", "real_obj"):
        if not isinstance(value, torch.ScriptObject):
            value = getattr(value, attribute, value)
    return value


def class_name(engine: torch.ScriptObject) -> str:
    """The engine's class as `torch.classes` has it, such as `trt_runtime.Engine`."""
    qualified: str = engine._type().qualified_name()
    return qualified.removeprefix(_CLASSES)


def _obstacle(
    engine: torch.ScriptObject, capability: Capability, methods: frozenset[str]
) -> str | None:
    """Why the engine lacks the capability; None if it has it."""
    if capability.method not in methods:
        return f"no method {capability.method}()"
    if capability is TRACING_MODE_REAL:
        # The method is the class's, its answer the object's: asked each time, it costs a microsecond.
        mode = engine.tracing_mode()  # type: ignore[attr-defined]
        if mode != _REAL:
            return f"tracing_mode() returns {mode!r:.80}, not {_REAL!r}"
    if capability is NAMED_DATA_DELEGATE:  # Nothing of the engine itself: its library says so.
        names = engine.capabilities()  # type: ignore[attr-defined]
        if capability.name not in names:
            return f"capabilities() returns {names!r:.200}"
    return None
