"""One executor for the delegates that have the same plan, and no bytes run as verified that nobody verified.

A record *claims* which sha256 its plan has, and files with the same claim may hold different bytes. So an executor is
shared in two cases only:

- its plan lies in the same bytes of the same file (or in the same memory), or
- its plan was verified, so that its bytes are those that the claim names.

Verified is the plan that the executor was made from and keeps, not the one that happens to be loaded at the time.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Hashable
from dataclasses import dataclass

from .. import _native
from ..executors.base import Executor, open_executor, verify_plan
from ..info import EngineInfo


@dataclass(eq=False)
class SharedExecutor:
    """An executor with the plan that it was made from. Own it for as long as the executor is used."""

    executor: Executor
    plan: _native.Plan
    is_verified: bool


_open: weakref.WeakValueDictionary[tuple[Hashable, Hashable], SharedExecutor] = (
    weakref.WeakValueDictionary()
)
"""By claim and by where the plan's bytes are."""
_verified: weakref.WeakValueDictionary[Hashable, SharedExecutor] = weakref.WeakValueDictionary()
"""By claim alone."""
_opening = threading.RLock()  # a signal handler may load a program while its thread does


def share_executor(info: EngineInfo, plan: _native.Plan, *, verify: bool) -> SharedExecutor:
    """Return the executor of a plan: an open one, or else a new one.

    An executor is made for the bindings of one record, which it compares with the plan: another record of the
    same plan has one of its own.

    Args:
        info: the record.
        plan: the plan, which the executor keeps.
        verify: whether all bytes of the plan must have been compared with the sha256 in the record. They are read
            once, however often the same bytes of the same file are loaded while the executor is open.

    Raises:
        PlanError: the plan is damaged.
        ExecutorUnavailableError: nothing here can run it.

    """
    claim = _claim(info)
    place = _place(plan)
    with _opening:
        shared = _open.get((claim, place))
        if shared is None:
            shared = _take(info, plan, claim, verify=verify)
            # An address is another plan's once this one is gone, and a shared executor keeps its own plan only.
            if shared.plan is plan or (verify and isinstance(place, _FilePlace)):
                _open[claim, place] = shared
        elif verify and not shared.is_verified:
            verify_plan(info, shared.plan)
            shared.is_verified = True
        if shared.is_verified:
            _verified.setdefault(claim, shared)
        return shared


def _take(info: EngineInfo, plan: _native.Plan, claim: Hashable, *, verify: bool) -> SharedExecutor:
    """Return an executor for a plan that is at a place of its own."""
    if verify:
        verify_plan(info, plan)
    verified = _verified.get(claim)
    if verified is not None:
        return verified
    shared = SharedExecutor(open_executor(info, plan), plan, verify)
    _native.count_executor_load()
    return shared


def _claim(info: EngineInfo) -> Hashable:
    assert info.plan is not None  # checked by info_from_payload
    return (
        (info.plan.format, info.plan.sha256),
        (info.device, info.resource_allocation_strategy),
        tuple((binding.name, binding.dtype, len(binding.shape)) for binding in info.inputs),
        tuple((binding.name, binding.dtype, len(binding.shape)) for binding in info.outputs),
    )


@dataclass(frozen=True, slots=True)
class _FilePlace:
    """Bytes of a mapped file: two places that are equal hold the same bytes."""

    device: str
    """Of the mapping, as the kernel writes it; file systems may have another one in `stat`."""
    inode: int
    offset: int
    size: int
    state: tuple[int, int, int, int, int]
    """Of the file by its path: device, inode, size and the times of its last changes."""


def _place(plan: _native.Plan) -> Hashable:
    """Return where the bytes of a plan are: in a file, or at an address."""
    address, size = plan.tensor.data_ptr(), memoryview(plan).nbytes
    try:
        return _file_place(address, size) or (address, size)
    except (OSError, ValueError):  # no /proc, a file that is gone: then it is not shared by file
        return address, size


def _file_place(address: int, size: int) -> _FilePlace | None:
    """Find the file that is mapped at an address; None if it is memory, or not all of it is in one mapping."""
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            # 7f5c8a000000-7f5c8a021000 r--p 00000000 08:01 131 /folder/model.pte
            span, rights, offset, device, inode, *path = line.rstrip("\n").split(maxsplit=5)
            start, end = (int(bound, 16) for bound in span.split("-"))
            if not start <= address < end:
                continue
            # What can be written to in memory may differ from the file.
            if address + size > end or not path or "w" in rights:
                return None
            found = os.stat(path[0])
            return _FilePlace(
                device,
                int(inode),
                int(offset, 16) + address - start,
                size,
                (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns),
            )
    return None
