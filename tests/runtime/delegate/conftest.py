"""For tests of delegates: warnings that are not ours, and no engine that others left open."""

import gc
from pathlib import Path

import pytest

from executorch_noise import expect_noise
from lowering import MORE_WARNINGS
from trt_runtime.delegate import shared_executors


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_noise(items, Path(__file__).parent, *MORE_WARNINGS)


@pytest.fixture(scope="module", autouse=True)
def _no_engine_is_open() -> None:
    """Executors are shared by the digest of their plan: one that is left open falsifies what others count."""
    gc.collect()
    assert not shared_executors._open, "the tests before this module left an engine open"
