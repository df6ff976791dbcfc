"""ExecuTorch's own warnings, out of the way of tests that turn warnings into errors."""

import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

# Importing ExecuTorch warns about its own dependencies (torchao, coremltools) in ways that change with each of them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import executorch.exir
    import executorch.runtime  # noqa: F401

WARNINGS = (
    # torch and ExecuTorch copy pytree specs, which torch itself deprecates.
    "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated:FutureWarning",
    # ExecuTorch finds its flatbuffer schema through importlib.resources.read_binary.
    "ignore:read_binary is deprecated:DeprecationWarning",
    "ignore:open_binary is deprecated:DeprecationWarning",
)


def expect_noise(items: Sequence[pytest.Item], folder: Path, *more: str) -> None:
    """Have every test below a folder ignore these warnings."""
    for item in items:
        if folder in item.path.parents:
            for text in (*WARNINGS, *more):
                item.add_marker(pytest.mark.filterwarnings(text))
