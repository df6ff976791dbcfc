"""Engines of any runtime release: a real engine's state behind whichever methods a test wants it to have."""

import hashlib
from collections.abc import Callable
from typing import Any

import torch


class _Type:
    def qualified_name(self) -> str:
        return "__torch__.torch.classes.trt_runtime.Engine"


def methods_of(
    engine: torch.ScriptObject,
    on_question: Callable[[str], object] = lambda name: None,
    **methods: Callable[[], Any],
) -> Any:
    """An engine of the same class with `__getstate__` and these methods, and no others.

    torch takes new methods neither on a TorchBind object nor on a class of them, and a process has one runtime; so
    the stand-in's type passes for torch's own where that is asked for.
    """

    class StandIn:
        __class__ = torch.ScriptObject  # What isinstance goes by.

        def _type(self) -> _Type:
            return _Type()

        def _has_method(self, name: str) -> bool:
            on_question(name)
            return name in ("__getstate__", *methods)

        def __getstate__(self) -> Any:
            return engine.__getstate__()

        def __hash__(self) -> int:
            return hash(engine)

    for name, method in methods.items():
        setattr(StandIn, name, staticmethod(method))
    return StandIn()


def accessors(engine: torch.ScriptObject) -> dict[str, Callable[[], Any]]:
    """What a runtime with every capability has, made of an engine of whichever runtime is here."""
    slots = [*engine.__getstate__()[0]]
    plan = slots[3]
    slots[3] = None

    def tensor() -> torch.Tensor:
        import base64

        return torch.frombuffer(bytearray(base64.b64decode(plan)), dtype=torch.uint8)

    held = tensor()
    return {
        "tracing_mode": lambda: "real",
        "serialize_metadata_only": lambda: [*slots],
        "serialized_engine_tensor": lambda: held,
        "plan_sha256": lambda: hashlib.sha256(held.numpy().data).hexdigest(),
        "capabilities": lambda: ["named-data-delegate"],
    }
