"""`check`: whether the delegates of a `.pte` run here, without loading an engine."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import _native
from ..errors import ExecutorUnavailableError, PlanError, ProgramError, TrtRuntimeError
from ..executors.base import check_executor, describe_target, verify_plan
from ..info import EngineInfo
from .payload import info_from_payload
from .pte import Delegate, map_file, read_delegates, read_methods, read_named_data
from .registration import BACKEND_ID, INLINE_BACKEND_ID, INSTALL, portable_library

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


def check(
    path: str | bytes | os.PathLike[str], data: str | os.PathLike[str] | None = None
) -> tuple[CheckedDelegate, ...]:
    """Check every delegate of a `.pte`. All of an engine is read, for its sha256, and none is loaded.

    Args:
        path: the program.
        data: its data file (`.ptd`), if it has one.

    Raises:
        OSError: a file cannot be read.
        ProgramError: it is no `.pte` or `.ptd`, or damaged outside of its delegates.

    """
    # The plans made below point into the maps, which are unmapped when the last of them is gone.
    path = os.fsdecode(path)
    program = map_file(path)
    try:
        delegates = read_delegates(program)
        read_methods(program)
        plans = {
            key: program[offset : offset + size]
            for key, (offset, size) in read_named_data(program).items()
        }
    except ProgramError as error:
        raise ProgramError(f"{path}: {error}") from None
    if data is not None:
        external = map_file(data)
        try:
            named = read_named_data(external)
        except ProgramError as error:
            raise ProgramError(f"{data}: {error}") from None
        plans |= {key: external[offset : offset + size] for key, (offset, size) in named.items()}
    return tuple(
        _check(delegate, program[delegate.offset : delegate.offset + delegate.size], plans)
        for delegate in delegates
    )


def _check(
    delegate: Delegate, payload: memoryview, plans: Mapping[str, memoryview]
) -> CheckedDelegate:
    if delegate.backend not in (BACKEND_ID, INLINE_BACKEND_ID):
        return _check_foreign(delegate)
    facts: dict[str, Any] = {"method": delegate.method, "backend": delegate.backend}
    try:
        fields, offset = _native.read_payload(payload)
        found = payload[offset:] if offset is not None else _find(fields, plans)
        plan = _native.share_plan(found)
        facts.update(
            format=plan.format,
            plan_size=found.nbytes,
            executor=_installed(_PACKAGES[plan.format]),
        )
        info = info_from_payload(fields, plan.format, facts["plan_size"]).info
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


def _find(fields: Mapping[str, Any], plans: Mapping[str, memoryview]) -> memoryview:
    """The plan that a payload refers to; raises ProgramError or PlanError."""
    plan = plans.get(fields["plan_key"])
    if plan is None:
        raise ProgramError(
            f"expected the plan {fields['plan_key']!r} in the program's named data, found none; if it is in a data "
            "file (.ptd), give that too: --data FILE"
        )
    if plan.nbytes != fields["plan_size"]:
        raise PlanError(
            f"expected a plan of {fields['plan_size']} bytes in the named data, found {plan.nbytes}; the file is "
            "damaged, or the data file is another program's"
        )
    return plan


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


@functools.cache
def _distributions() -> Mapping[str, Sequence[str]]:
    """The installed distributions by the packages in them: reading all of their metadata takes a while."""
    return importlib.metadata.packages_distributions()


def _installed(module: str) -> str | None:
    if importlib.util.find_spec(module) is None:
        return None
    for name in _distributions().get(module, ()):
        return f"{name} {importlib.metadata.version(name)}"
    return module
