"""`check`: whether the delegates of a `.pte` run here, without loading an engine."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import mmap
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .. import _native
from ..errors import ExecutorUnavailableError, ProgramError, TrtRuntimeError
from ..executors.base import check_executor, describe_target, verify_plan
from ..info import EngineInfo
from .payload import info_from_payload
from .pte import Delegate, read_delegates
from .registration import BACKEND_ID, INSTALL, portable_library

VALID, SUBOPTIMAL, INVALID = "VALID", "SUBOPTIMAL", "INVALID"

_PACKAGES: Mapping[str, str] = {
    "onnxruntime": "onnxruntime",
    "tensorrt": "tensorrt",
    "tensorrt-rtx": "tensorrt_rtx",
}


@dataclass(frozen=True, slots=True)
class CheckedDelegate:
    """What one delegate needs and whether it is here.

    `verdict` is ``VALID`` (it runs here), ``SUBOPTIMAL`` (it runs, but something else would run better) or
    ``INVALID`` (it does not run here), and `reason` says why it is not the first.
    """

    method: str
    backend: str
    verdict: str
    reason: str | None = None
    format: str | None = None
    plan_size: int | None = None
    target: str | None = None
    executor: str | None = None
    """The package that runs the plan with its version, None if it is missing."""
    provenance: Mapping[str, Any] = field(default_factory=dict)


def check(path: str | os.PathLike[str]) -> tuple[CheckedDelegate, ...]:
    """Check every delegate of a `.pte`. All of an engine is read, for its sha256, and none is loaded.

    Raises:
        OSError: the file cannot be read.
        ProgramError: it is no `.pte`, or damaged outside of its delegates.

    """
    with Path(path).open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise ProgramError(f"{path}: expected a .pte, found an empty file")
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    # The plans made below point into the map, which is unmapped when the last of them is gone.
    data = memoryview(mapped)
    try:
        delegates = read_delegates(data)
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None
    return tuple(_check(delegate, data) for delegate in delegates)


def _check(delegate: Delegate, data: memoryview) -> CheckedDelegate:
    if delegate.backend != BACKEND_ID:
        return _check_foreign(delegate)
    payload = data[delegate.offset : delegate.offset + delegate.size]
    facts: dict[str, Any] = {"method": delegate.method, "backend": delegate.backend}
    try:
        fields, offset = _native.read_payload(payload)
        plan = _native.share_plan(payload[offset:])
        facts.update(
            format=plan.format,
            plan_size=len(payload) - offset,
            executor=_installed(_PACKAGES[plan.format]),
        )
        info = info_from_payload(fields, plan.format, facts["plan_size"])
        facts.update(target=describe_target(info, plan), provenance=dict(info.provenance))
        verify_plan(info, plan)
        check_executor(info, plan)
        if importlib.util.find_spec("executorch") is None:
            raise ExecutorUnavailableError(
                f"expected the package executorch, found none; {INSTALL}"
            )
    except TrtRuntimeError as error:
        return CheckedDelegate(verdict=INVALID, reason=str(error), **facts)
    reason = _better(info, plan.format)
    return CheckedDelegate(verdict=SUBOPTIMAL if reason else VALID, reason=reason, **facts)


def _check_foreign(delegate: Delegate) -> CheckedDelegate:
    """A delegate of another backend; ExecuTorch knows whether it has that."""
    facts: dict[str, Any] = {"method": delegate.method, "backend": delegate.backend}
    try:
        here: Sequence[str] = portable_library()._get_registered_backend_names()
    except ExecutorUnavailableError as error:
        return CheckedDelegate(verdict=INVALID, reason=str(error), **facts)
    if delegate.backend in here:
        return CheckedDelegate(verdict=VALID, **facts)
    return CheckedDelegate(
        verdict=INVALID,
        reason=f"expected a backend {delegate.backend!r} in ExecuTorch, found {', '.join(here)}; install "
        "or load the library that brings it",
        **facts,
    )


def _better(info: EngineInfo, plan_format: str) -> str | None:
    """What would run better here than this engine, which runs."""
    if plan_format == "onnxruntime" and torch.cuda.is_available():
        return "it runs on the CPU, and there is a GPU here; build the engine with tensorrt or tensorrt-rtx"
    if info.hardware_compatible:
        return "it was built for several kinds of GPU; one built for this GPU alone may be faster"
    return None


def _installed(module: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return None
    for name in importlib.metadata.packages_distributions().get(module, ()):
        return f"{name} {importlib.metadata.version(name)}"
    return module
