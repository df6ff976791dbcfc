"""ExecuTorch for the tests of lowering, and its own warnings out of their way."""

import base64
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import trt_runtime

# Importing ExecuTorch warns about its own dependencies (torchao, coremltools) in ways that change with each of them.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import executorch.exir  # noqa: F401

_EXPECTED = (
    # Tests of every runtime release run here; what is said of old ones has tests of its own.
    "ignore:trt-export. engines of class:trt_export.FallbackWarning",
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
            for text in _EXPECTED:
                item.add_marker(pytest.mark.filterwarnings(text))


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what engine classes have been asked, and what has been warned of."""
    monkeypatch.setattr("trt_export.engines.probe._methods", {})
    monkeypatch.setattr("trt_export.engines.fallback._announced", set())


@pytest.fixture
def running_op() -> Iterator[None]:
    """A real kernel for the op that lowering puts in an engine's place: it makes an engine of the op's arguments."""
    from trt_export.passes.engine_op import execute_plan

    def run(
        inputs: list[torch.Tensor], plan: torch.Tensor, record: list[str]
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        state = [*record]
        state[3] = base64.b64encode(plan.numpy().data).decode()
        engine = trt_runtime.Engine.deserialize(state).script_object
        results = torch.ops.trt_runtime.execute_engine(inputs, engine)
        return results[0] if len(results) == 1 else tuple(results)

    library = torch.library.Library("trt_export", "IMPL")
    for outputs in range(1, 9):
        library.impl(execute_plan(outputs), run, "CPU")
    yield
    library._destroy()
