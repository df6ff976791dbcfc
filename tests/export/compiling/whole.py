"""Small models of transformers, and what "whole" means of one: a single engine, no node left, eager's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers
from torch.export import Dim, ExportedProgram, export
from torch.utils import _pytree as pytree

from trt_export.compiling import CompileReport, compile

VOCABULARY = 99
SMALL: Mapping[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "pad_token_id": 0,
}

Inputs = dict[str, torch.Tensor]


def from_config(model: str, config: str, **settings: Any) -> torch.nn.Module:
    """Make a model by the names of its class and its configuration's, with the same weights every time."""
    torch.manual_seed(0)
    made: torch.nn.Module = getattr(transformers, model)(getattr(transformers, config)(**settings))
    for module in made.modules():
        if hasattr(module, "config"):
            module.config.use_cache = False
    return made.eval()


def tokens(batch: int, length: int) -> Inputs:
    """Return token ids of which the first row is padded on the left: its first positions may attend to nothing."""
    torch.manual_seed(batch * 100 + length)
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, : length // 2] = 0
    return {"input_ids": torch.randint(3, VOCABULARY, (batch, length)), "attention_mask": mask}


def exported(module: torch.nn.Module, inputs: Inputs, *names: str) -> ExportedProgram:
    """Export with a dynamic batch and, for the inputs in `names`, a dynamic length."""
    batch, length = Dim("batch", min=1, max=4), Dim("length", min=2, max=16)
    sizes = {0: batch, 1: length} if names else {0: batch}
    dynamic = {name: sizes if name in names else {0: batch} for name in inputs}
    return export(module, (), inputs, dynamic_shapes=dynamic)


def compiled(program: ExportedProgram, **options: Any) -> tuple[torch.nn.Module, CompileReport]:
    """Compile; the report is the second."""
    reports: list[CompileReport] = []
    result = compile(program, on_report=reports.append, **options)
    return result.module(), reports[0]


def require_whole(report: CompileReport) -> None:
    """Fail unless all is in one engine and was compared with PyTorch."""
    assert [(node.operator, node.reason) for node in report.left_in_pytorch] == []
    assert len(report.engines) == 1
    assert report.verified


def require_equal(
    found: torch.nn.Module, expected: torch.nn.Module, inputs: Inputs, tolerance: float = 1e-4
) -> None:
    """Fail unless both modules return the same numbers."""
    with torch.no_grad():
        one, other = pytree.tree_leaves(found(**inputs)), pytree.tree_leaves(expected(**inputs))
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
