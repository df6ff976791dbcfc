"""ExecuTorch for the tests of lowering, and its own warnings out of their way."""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import trt_runtime
from executorch_noise import expect_noise


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Tests of every runtime release run here; what is said of old ones has tests of its own.
    expect_noise(
        items,
        Path(__file__).parent,
        "ignore:trt-export. engines of class:trt_export.FallbackWarning",
    )


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what engine classes have been asked, and what has been warned of."""
    monkeypatch.setattr("trt_export.engines.probe._methods", {})
    monkeypatch.setattr("trt_export.engines.fallback._announced", set())


@pytest.fixture
def running_op() -> Iterator[None]:
    """A real kernel for the op that lowering puts in an engine's place: it makes an engine of the op's arguments."""
    from trt_export.passes.engine_op import execute_plan
    from trt_export.passes.plan_store import find

    def run(
        inputs: list[torch.Tensor], plan: str, backend: str, record: list[str]
    ) -> torch.Tensor | tuple[torch.Tensor, ...]:
        state = [*record]
        state[3] = base64.b64encode(find(plan).data).decode()
        engine = trt_runtime.Engine.deserialize(state).script_object
        results = torch.ops.trt_runtime.execute_engine(inputs, engine)
        return results[0] if len(results) == 1 else tuple(results)

    library = torch.library.Library("trt_export", "IMPL")
    for outputs in range(1, 9):
        library.impl(execute_plan(outputs), run, "CPU")
    yield
    library._destroy()
