"""The op that stands for an engine call while ExecuTorch lowers a program.

ExecuTorch cannot lower a TorchBind object, but it can lower a tensor: the plan is a uint8 buffer of the
program, and the record goes along as strings. The op is functional, has a fake kernel and no real one; it only
exists between `rewrite` and the delegate's `preprocess`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch.fx import Node

from trt_export.engines.expressions import evaluate
from trt_export.engines.record import EngineRecord, parse_record
from trt_export.errors import EngineRecordError

OP = "trt_export::execute_plan"

torch.library.define(OP, "(Tensor[] inputs, Tensor plan, str[] record) -> Tensor[]")
execute_plan = torch.ops.trt_export.execute_plan.default


@lru_cache(maxsize=64)
def record_of(strings: tuple[str, ...]) -> EngineRecord:
    """The record in the op's last argument."""
    return parse_record(strings)


@torch.library.register_fake(OP)
def execute_plan_shapes(
    inputs: Sequence[torch.Tensor], plan: torch.Tensor, record: Sequence[str]
) -> list[torch.Tensor]:
    """Outputs as the record describes them: contiguous, on the CPU, which is where ExecuTorch plans.

    Args:
        inputs: one tensor for each input binding.
        plan: uint8, shape [plan size].
        record: the 13 strings of `docs/engine-record.md`, the engine slot empty.
    """
    engine = record_of(tuple(record))
    sizes = input_sizes(engine, [tensor.shape for tensor in inputs])
    return [
        torch.empty([evaluate(dim, sizes) for dim in output.shape], dtype=getattr(torch, output.dtype))
        for output in engine.outputs
    ]


def input_sizes(engine: EngineRecord, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The free dimensions of an engine's inputs by name, out of the inputs' shapes."""
    if len(shapes) != len(engine.inputs):
        raise EngineRecordError(
            f"engine {engine.name!r} takes {len(engine.inputs)} inputs, the call has {len(shapes)}"
        )
    return {
        f"i{index}d{dim}": size
        for index, shape in enumerate(shapes)
        for dim, size in enumerate(shape)
    }


def is_execute_plan(node: Node) -> bool:
    """Whether a node calls the op, in ATen dialect or in ExecuTorch's Edge dialect."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and getattr(schema, "name", "") == OP
