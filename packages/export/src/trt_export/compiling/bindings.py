"""Describes the inputs and outputs of a partition's engine: names, types, shapes and bounds."""

import torch

from trt_export.builders import Binding
from trt_export.compiling.bounds import DynamicBounds
from trt_export.compiling.onnx_model import OnnxPartition
from trt_export.compiling.support import BINDING_DTYPES
from trt_export.engines.shapes import is_dynamic, size_of, step_of


def bindings(
    model: OnnxPartition, bounds: DynamicBounds
) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """Return the inputs and outputs of a partition's engine, in the order of the sub-program's."""
    dimensions = model.subprogram.dimensions
    inputs = []
    for position, node in enumerate(model.subprogram.inputs):
        value = node.meta["val"]
        limits = [bounds.of(size) for size in value.shape]
        steps = _steps(value)
        inputs.append(
            Binding(
                f"in_{position}",
                BINDING_DTYPES[value.dtype],
                dimensions.shape(value),
                *(tuple(getattr(bound, end) for bound in limits) for end in ("min", "opt", "max")),
                *steps,
            )
        )
    outputs = [
        Binding(
            f"out_{position}",
            BINDING_DTYPES[node.meta["val"].dtype],
            dimensions.shape(node.meta["val"]),
        )
        for position, node in enumerate(model.subprogram.outputs)
    ]
    return tuple(inputs), tuple(outputs)


def _steps(value: torch.Tensor) -> tuple[tuple[int, ...], ...]:
    """Return what the sizes are multiples of and their offsets, or nothing if every size within the bounds will do."""
    steps = [step_of(size_of(size)) if is_dynamic(size) else (1, 0) for size in value.shape]
    if all(step == (1, 0) for step in steps):
        return ()
    return tuple(zip(*steps, strict=True))
