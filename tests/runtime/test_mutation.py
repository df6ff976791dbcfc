"""An operator that changes tensors in place and takes an engine, the way a KV cache will be.

trt-runtime has none yet. This one is the tests' own; what is tested is that an engine as an optional argument, traced
as itself, leaves torch all that it needs to keep such calls in order.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.library import register_torch_dispatch

from .building import relu_engine

pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

ENGINE = "__torch__.torch.classes.trt_runtime.Engine? engine"
X = torch.randn(4, 8)


def advanced(states, x, engine) -> list[torch.Tensor]:
    """The functional twin: the new states, then the output."""
    (y,) = torch.ops.trt_runtime.execute_engine([x], engine)
    return [*(state * 2 + y for state in states), states[0] + y]


def advance(states, x, engine) -> torch.Tensor:
    *new, y = advanced(states, x, engine)
    for state, value in zip(states, new, strict=True):
        state.copy_(value)
    return y


def advance_fake(mode, function, types, args, kwargs) -> torch.Tensor:
    with mode:
        return torch.empty_like(args[1])


def advanced_fake(mode, function, types, args, kwargs) -> list[torch.Tensor]:
    states, x, _ = args
    with mode:
        return [torch.empty_like(tensor) for tensor in (*states, x)]


def advance_functional(mode, function, types, args, kwargs) -> torch.Tensor:
    with mode:
        *new, y = torch.ops.trt_runtime_test.advanced(*args)
        for state, value in zip(args[0], new, strict=True):
            state.copy_(value)
        return y


@pytest.fixture(scope="module", autouse=True)
def operators() -> Iterator[None]:
    with torch.library._scoped_library("trt_runtime_test", "DEF") as library:
        library.define(f"advance(Tensor(a!)[] states, Tensor x, {ENGINE}) -> Tensor")
        library.define(f"advanced(Tensor[] states, Tensor x, {ENGINE}) -> Tensor[]")
        library.impl("advance", advance, "CompositeExplicitAutograd")
        library.impl("advanced", advanced, "CompositeExplicitAutograd")
        for name, mode, rule in (
            ("advance", FakeTensorMode, advance_fake),
            ("advanced", FakeTensorMode, advanced_fake),
            ("advance", FunctionalTensorMode, advance_functional),
        ):
            register_torch_dispatch(f"trt_runtime_test::{name}", mode, rule, lib=library)
        yield


class Model(torch.nn.Module):
    """Two calls that change the same states, which do not commute."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = relu_engine().script_object
        self.register_buffer("a", torch.zeros(4, 8))
        self.register_buffer("b", torch.ones(4, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.ops.trt_runtime_test.advance([self.a, self.b], x, self.engine)
        z = torch.ops.trt_runtime_test.advance([self.b, self.a], x + y, self.engine)
        return y + z + self.a


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize(
    "step",
    [
        lambda program: program,
        lambda program: program.run_decompositions(),
        lambda program: program.run_decompositions({}).run_decompositions(),
    ],
    ids=["as it is", "run_decompositions", "twice"],
)
def test_calls_that_change_tensors_keep_their_order(step, strict, counted) -> None:
    model = Model()
    eager = Model()
    with counted() as grown:
        program = step(torch.export.export(model, (X,), strict=strict))
    assert grown == {}
    module = program.module()
    for _ in range(3):
        assert torch.equal(module(X), eager(X))


def test_decomposition_makes_the_changes_outputs() -> None:
    program = torch.export.export(Model(), (X,)).run_decompositions()
    targets = [node.target for node in program.graph.nodes if node.op == "call_function"]
    assert targets.count(torch.ops.trt_runtime_test.advanced.default) == 2
    assert torch.ops.trt_runtime_test.advance.default not in targets
    assert set(program.graph_signature.buffers_to_mutate.values()) == {"a", "b"}


def test_the_order_matters() -> None:
    """Else the tests above could not fail."""
    model = Model()
    swapped = copy.deepcopy(model)
    swapped.a, swapped.b = swapped.b, swapped.a
    assert not torch.equal(model(X), swapped(X))
