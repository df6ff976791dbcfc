"""Programs on their way to a `.pte` that runs here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from executorch.exir import ExecutorchBackendConfig
from torch.export import ExportedProgram

import trt_export
import trt_runtime

# What lowering and running a program may say besides executorch_noise.WARNINGS.
MORE_WARNINGS = (
    "ignore:trt-export. engines of class:trt_export.FallbackWarning",
    "ignore:Mutation on a buffer in the model:UserWarning",
)


def lower(
    programs: ExportedProgram | Mapping[str, ExportedProgram],
    path: Path,
    format: Any = None,
    **options: Any,
) -> Path:
    """Write a `.pte`; `options` are those of ExecutorchBackendConfig."""
    config = ExecutorchBackendConfig(**options) if options else None
    edge = trt_export.to_edge(programs, format=format)
    (written,) = trt_export.save(edge, path, config=config)
    return written


def load(
    programs: ExportedProgram | Mapping[str, ExportedProgram], path: Path, **options: Any
) -> trt_runtime.Program:
    """Write a `.pte` and load it."""
    return trt_runtime.load(lower(programs, path, **options))


def flat(values: Any) -> list[Any]:
    """Tensors, numbers and None, in the order of a method's inputs or outputs."""
    return torch.utils._pytree.tree_leaves(values)
