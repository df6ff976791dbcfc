"""A size that is the sum of many: `compile` writes it so that trt-runtime reads it, or leaves the node in PyTorch."""

from __future__ import annotations

import pytest
import torch
from torch.export import Dim, export

import trt_export


class Joined(torch.nn.Module):
    def forward(self, *tensors: torch.Tensor) -> torch.Tensor:
        return torch.cat([tensor + 1 for tensor in tensors])


@pytest.mark.parametrize(("count", "in_engine"), [(51, True), (130, False)])
def test_a_concatenation_of_many_dynamic_tensors_compiles(count: int, in_engine: bool) -> None:
    tensors = tuple(torch.full((2 + index % 3,), float(index)) for index in range(count))
    shapes = (tuple({0: Dim(f"d{index}", min=2, max=9)} for index in range(count)),)
    program = trt_export.compile(
        export(Joined(), tensors, dynamic_shapes=shapes), builder="onnxruntime"
    )
    other = tuple(torch.ones(2 + index % 7) for index in range(count))
    for inputs in (tensors, other):
        torch.testing.assert_close(program.module()(*inputs), Joined()(*inputs))
    stayed = program.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    assert bool(stayed) is not in_engine
