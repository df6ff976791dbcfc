"""ExecuTorch for the tests of lowering, and its own warnings out of their way."""

import warnings
from pathlib import Path

import pytest

# Importing ExecuTorch warns about its own dependencies (torchao, coremltools) in ways that change with each of them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import executorch.exir  # noqa: F401

# torch and ExecuTorch copy pytree specs, which torch itself deprecates.
_THIRD_PARTY = "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated:FutureWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(_THIRD_PARTY))
