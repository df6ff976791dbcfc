"""Programs on their way to a `.pte` that runs here; ExecuTorch's own warnings stay out of the way."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

# Importing ExecuTorch warns about its own dependencies (torchao, coremltools) in ways that change with each.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import executorch.exir
    import executorch.runtime

    import trt_export

import trt_runtime

# What ExecuTorch and torch say about themselves when they lower or load a program.
EXPECTED_WARNINGS = (
    "ignore:trt-export. engines of class:trt_export.FallbackWarning",
    "ignore:`isinstance\\(treespec, LeafSpec\\)` is deprecated:FutureWarning",
    "ignore:read_binary is deprecated:DeprecationWarning",
    "ignore:open_binary is deprecated:DeprecationWarning",
    "ignore:Mutation on a buffer in the model:UserWarning",
)


def lower(
    programs: ExportedProgram | Mapping[str, ExportedProgram], path: Path, **options: Any
) -> Path:
    """Write a `.pte`; `options` are those of ExecutorchBackendConfig."""
    config = executorch.exir.ExecutorchBackendConfig(**options) if options else None
    (written,) = trt_export.save(trt_export.to_edge(programs), path, config=config)
    return written


def load(
    programs: ExportedProgram | Mapping[str, ExportedProgram], path: Path, **options: Any
) -> trt_runtime.Program:
    """Write a `.pte` and load it."""
    return trt_runtime.load(lower(programs, path, **options))


def flat(values: Any) -> list[Any]:
    """Tensors, numbers and None, in the order of a method's inputs or outputs."""
    return torch.utils._pytree.tree_leaves(values)
