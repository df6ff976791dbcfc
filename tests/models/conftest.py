"""Warnings that are not ours, for tests that lower and run models."""

from pathlib import Path

import pytest

from executorch_noise import expect_noise
from lowering import MORE_WARNINGS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_noise(items, Path(__file__).parent, *MORE_WARNINGS)
