"""The op that stands for an engine call while ExecuTorch lowers a program.

ExecuTorch cannot lower a TorchBind object, and what is in a graph it copies and hashes: so the op carries the key of
the plan, which `plan_store` has, and the record as strings. It is functional, has a fake kernel and no real one, and
only exists between `rewrite` and the delegate's `preprocess`.

There is an overload for each number of outputs. With `-> Tensor[]` for all of them, ExecuTorch 1.4 takes the
first output for the list (`EdgeOpArgValidator`): it fixes that output's dynamic first dimension to the example's
size in silence, and fails on a scalar.
"""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from trt_export.engines.expressions import evaluate
from trt_export.engines.record import EngineRecord, record_of_strings
from trt_export.errors import EngineRecordError

OP = "trt_export::execute_plan"


@cache
def execute_plan(outputs: int) -> OpOverload:
    """The overload with so many outputs.

    Its schema is `(Tensor[] inputs, str plan, str backend, str[] record) -> (Tensor, ...)`; it gives the bare tensor
    if there is one output, else a tuple. `plan` is the key of a stored plan, `backend` the id of the delegate that is
    to run it; `record` has the 13 strings of `docs/engine-record.md`, with an empty engine slot; for an engine of
    torch-tensorrt a 14th, the bindings as the graph has them.
    """
    overload = f"outputs_{outputs}"
    returns = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    torch.library.define(
        f"{OP}.{overload}",
        f"(Tensor[] inputs, str plan, str backend, str[] record) -> {returns}",
    )
    torch.library.register_fake(f"{OP}.{overload}", _fake_outputs)
    op: OpOverload = getattr(torch.ops.trt_export.execute_plan, overload)
    return op


@lru_cache(maxsize=64)
def record_of(strings: tuple[str, ...]) -> EngineRecord:
    """The record in the op's last argument."""
    return record_of_strings(strings)


def is_execute_plan(node: Node) -> bool:
    """Whether a node calls the op, in ATen dialect or in ExecuTorch's Edge dialect."""
    schema = getattr(node.target, "_schema", None)
    return node.op == "call_function" and getattr(schema, "name", "") == OP


def _fake_outputs(
    inputs: Sequence[torch.Tensor], plan: str, backend: str, record: Sequence[str]
) -> torch.Tensor | tuple[torch.Tensor, ...]:
    """Outputs as the record describes them: contiguous, on the device of the graph that they are in."""
    engine = record_of(tuple(record))
    sizes = _input_sizes(engine, [tensor.shape for tensor in inputs])
    outputs = tuple(
        torch.empty(
            [evaluate(dim, sizes) for dim in output.shape],
            dtype=getattr(torch, output.dtype),
            device=inputs[0].device,
        )
        for output in engine.outputs
    )
    return outputs[0] if len(outputs) == 1 else outputs


def _input_sizes(engine: EngineRecord, shapes: Sequence[Sequence[Any]]) -> dict[str, Any]:
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
