"""Mixtures of experts as transformers computes them by default: rows sorted by expert, products by group."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim, export

from export.compiling.whole import (
    SMALL,
    compiled,
    exported,
    from_config,
    require_equal,
    require_whole,
    tokens,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")

_QWEN3 = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 8}
MODELS = [
    ("MixtralForCausalLM", "MixtralConfig", {**SMALL, "num_local_experts": 4}),
    ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**SMALL, **_QWEN3}),
]


@pytest.mark.parametrize(("model", "config", "settings"), MODELS, ids=lambda v: str(v)[:20])
def test_default_experts_are_in_the_one_engine(
    model: str, config: str, settings: dict[str, Any]
) -> None:
    module = from_config(model, config, **settings)
    program = exported(module, tokens(2, 7), "input_ids", "attention_mask")
    assert any("grouped_mm" in str(node.target) for node in program.graph.nodes)
    found, report = compiled(program)
    require_whole(report)
    for batch, length in ((2, 7), (1, 2), (4, 16)):
        require_equal(found, module, tokens(batch, length))


class _Grouped(nn.Module):
    """Rows of groups 0 to 3, sorted, each by the matrix of its group; rows of group 4 are behind the last one."""

    def __init__(self, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed
        self.weight = nn.Parameter(torch.randn(4, 5, 7) if transposed else torch.randn(4, 7, 5))

    def forward(self, x: Tensor, group: Tensor) -> Tensor:
        ends = (group[None, :] <= torch.arange(4)[:, None]).sum(1).int()
        weight = self.weight.transpose(-2, -1) if self.transposed else self.weight
        result: Tensor = torch.ops.transformers.grouped_mm_fallback(x, weight, ends)
        return result


@pytest.mark.parametrize("transposed", [False, True])
def test_groups_of_any_sizes_have_their_own_matrix(transposed: bool) -> None:
    import transformers.integrations.moe  # noqa: F401  (registers the operator)

    torch.manual_seed(0)
    module = _Grouped(transposed)
    rows = Dim("rows", min=1, max=64)
    group = torch.tensor([0, 0, 2, 2, 2, 2, 2, 3, 3])
    program = export(module, (torch.randn(9, 7), group), dynamic_shapes=({0: rows}, {0: rows}))
    found, report = compiled(program)
    require_whole(report)
    groups = [[0], [3], [4], [0, 4], [1, 1, 1, 1, 1], [0, 1, 2, 3], [2] * 64, [0] * 3 + [3] * 20]
    groups += [torch.randint(0, 5, (size,)).sort().values.tolist() for size in range(2, 60, 7)]
    for one in groups:
        x, of_row = torch.randn(len(one), 7), torch.tensor(one)
        torch.testing.assert_close(found(x, of_row), module(x, of_row), rtol=1e-5, atol=1e-5)


def test_memory_that_is_written_later_is_not_compared() -> None:
    """The permutation of a sort is undone by way of `empty_like`, whose numbers nobody knows."""

    class Undone(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            order = x.sort().indices
            back = torch.empty_like(order)
            back[order] = torch.arange(x.shape[0])
            return x[order][back] + back

    x = torch.tensor([2.0, 1.0, 2.0, 0.0] * 8)  # with ties, of which PyTorch and ONNX take others
    found, report = compiled(export(Undone(), (x,)))
    require_whole(report)
    distinct = torch.randperm(32).float()
    torch.testing.assert_close(found(distinct), Undone()(distinct))
