"""What happens where an engine lacks a capability: one warning, or an error in strict mode.

A fallback gives the same result, more slowly, so it is said once per process. With `TRT_EXPORT_STRICT=1` it is an
error, raised before anything is read or changed.
"""

import os
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence

from trt_export.engines.library import engine_library
from trt_export.engines.probe import Capability, EngineCapabilities, MissingCapability
from trt_export.errors import FallbackWarning, MissingCapabilityError, UsageError

STRICT = "TRT_EXPORT_STRICT"


_announced: set[tuple[str, str]] = set()
_lock = threading.RLock()


def announce_fallbacks(engines: Iterable[EngineCapabilities], needed: Sequence[Capability]) -> None:
    """Warn of needed capabilities that engines lack, once per process for each capability of a class.

    Raises:
        MissingCapabilityError: in strict mode, naming all of them.
        UsageError: the variable is neither 0 nor 1.
    """
    strict = is_strict()
    gaps = {
        (capabilities.engine_class, gap.capability.name): gap
        for capabilities in engines
        for gap in capabilities.missing
        if gap.capability in needed
    }
    messages = {
        key: _message(key[0], gap) for key, gap in gaps.items() if strict or key not in _announced
    }
    if strict and messages:
        raise MissingCapabilityError(
            f"{STRICT}=1 allows no fallback: {'; '.join(messages.values())}"
        )
    for key, message in messages.items():
        with _lock:
            if key not in _announced:
                # A warning that a filter turns into an error has not been heard: it comes again.
                warnings.warn(f"trt-export: {message}", FallbackWarning, stacklevel=_stacklevel())
                _announced.add(key)


def is_strict() -> bool:
    """Whether TRT_EXPORT_STRICT asks for errors.

    Raises:
        UsageError: it is neither 0 nor 1.
    """
    value = os.environ.get(STRICT, "")
    if value not in ("", "0", "1"):
        raise UsageError(f"{STRICT} must be 0 or 1, found {value!r:.40}")
    return value == "1"


def _message(engine_class: str, gap: MissingCapability) -> str:
    library = engine_library(engine_class)
    text = (
        f"engines of class {engine_class} lack the capability {gap.capability.name} ({gap.found}), so"
        f" {gap.capability.cost}; loaded is {library}"
    )
    return f"{text}: {library.remedy}" if library.remedy else text


def _stacklevel() -> int:
    """The level of the first caller outside of this package: the line that a warning is about."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(
        "trt_export."
    ):
        level, frame = level + 1, frame.f_back
    return level
