"""ExecuTorch for the tests of lowering, and its own warnings out of their way."""

import warnings
from pathlib import Path

import pytest

# Importing ExecuTorch warns about its own dependencies (torchao, coremltools) in ways that change with each of them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import executorch.exir  # noqa: F401

_THIRD_PARTY = (
    # torch and ExecuTorch copy pytree specs, which torch itself deprecates.
    "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated:FutureWarning",
    # ExecuTorch finds its flatbuffer schema through importlib.resources.read_binary.
    "ignore:read_binary is deprecated:DeprecationWarning",
    "ignore:open_binary is deprecated:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            for text in _THIRD_PARTY:
                item.add_marker(pytest.mark.filterwarnings(text))
