"""Torch's and ExecuTorch's own warnings, out of the way of the tests."""

from pathlib import Path

import pytest
from hypothesis import settings

from executorch_noise import expect_noise

# How long an example takes says how busy the machine is, nothing about the code.
settings.register_profile("contract", deadline=None)
settings.load_profile("contract")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_noise(items, Path(__file__).parent)
