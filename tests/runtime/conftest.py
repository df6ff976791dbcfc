from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest
from hypothesis import settings

import trt_runtime

# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile("runtime", deadline=None)
settings.load_profile("runtime")


@pytest.fixture
def counted() -> Callable[[], AbstractContextManager[dict[str, int]]]:
    """A context that fills its dict with what the counters of trt_runtime.stats() grew by, zeros left out."""

    @contextmanager
    def count() -> Iterator[dict[str, int]]:
        before = trt_runtime.stats()
        grown: dict[str, int] = {}
        yield grown
        after = trt_runtime.stats()
        grown.update({key: after[key] - before[key] for key in after if after[key] != before[key]})

    return count
