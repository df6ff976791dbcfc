"""Plans over memory that is there already: buffers, and files."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from . import _native
from .errors import PlanError


def hold(plan: Any) -> _native.Plan:
    """Make a plan of a buffer: held if nothing in this process can change it, else copied once.

    Raises:
        PlanError: no contiguous buffer, or no plan in it.

    """
    try:
        view = memoryview(plan)
        flat = view.cast("B")
    except TypeError as error:
        raise PlanError(
            f"plan: expected a path or contiguous bytes, found {type(plan).__name__} ({error}); pass "
            "what the builder returned"
        ) from None
    owner = view.obj
    if isinstance(owner, _native.Plan):
        whole = memoryview(owner).nbytes == flat.nbytes
        return owner if whole else _native.share_plan(flat)  # it knows its hash already
    if _cannot_change(owner):
        return _native.share_plan(flat)
    return _native.copy_plan(flat)


def _cannot_change(owner: object) -> bool:
    # A read-only view of anything else may have a writer elsewhere. Whether a map can be written to is
    # asked of the map itself, for there are read-only views of writable ones.
    return type(owner) is bytes or (type(owner) is mmap.mmap and memoryview(owner).readonly)


def map_file(path: str | os.PathLike[str]) -> _native.Plan:
    """Make a plan of a file without reading it.

    Raises:
        OSError: it cannot be opened.
        PlanError: it is no regular file, is empty or holds no plan.

    """
    with opened(path) as file:
        try:
            return _native.map_plan(file)
        except PlanError as error:
            raise PlanError(f"{os.fspath(path)}: {error}") from None


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[int]:
    """Open a file to read, or what turns out to be none, at once: a pipe would else wait for someone to write to it.

    Raises:
        OSError: it cannot be opened.

    """
    descriptor = os.open(os.fspath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
