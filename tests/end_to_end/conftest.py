"""Warnings that are not ours, for tests that lower and run programs."""

from pathlib import Path

import pytest

from lowering import EXPECTED_WARNINGS


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for text in EXPECTED_WARNINGS:
                item.add_marker(pytest.mark.filterwarnings(text))
