"""What the engine of a call takes and gives: from its metadata, or from the graph where it has none that is read."""

from collections.abc import Sequence
from typing import Any

import torch

from trt_export.engines.find import EngineCall
from trt_export.engines.metadata import Binding
from trt_export.engines.read import EngineReader
from trt_export.engines.record import (
    EngineRecord,
    binding_names,
    parse_foreign_record,
    parse_record,
)
from trt_export.engines.shapes import Inexpressible, InputDimensions
from trt_export.errors import BindingMismatchError, BindingTypeError, LoweringError
from trt_export.passes.validate import outputs_of, value_of


def describe(call: EngineCall, reader: EngineReader) -> EngineRecord:
    """The record of a call's engine.

    An engine of torch-tensorrt names its bindings and says no more of them, so that their dtypes and shapes are
    those of the graph; an output's shape is written as expressions over the inputs' dimensions.

    Raises:
        EngineRecordError: a record that this version does not read.
        BindingMismatchError, BindingTypeError: the graph has another number of tensors than the engine, or none.
        LoweringError: the size of an output does not follow from those of the inputs.
    """
    record = reader.metadata()
    if not reader.is_foreign:
        return parse_record(record)
    input_names, output_names = binding_names(record)
    inputs = _tensors(call, "input", input_names, [value_of(node) for node in call.inputs])
    outputs = _tensors(call, "output", output_names, outputs_of(call))
    dimensions = InputDimensions(inputs)
    return parse_foreign_record(
        record,
        [_binding(call, *pair, dimensions) for pair in zip(input_names, inputs, strict=True)],
        [_binding(call, *pair, dimensions) for pair in zip(output_names, outputs, strict=True)],
    )


def _tensors(
    call: EngineCall, role: str, names: Sequence[str], values: Sequence[Any]
) -> list[torch.Tensor]:
    if len(names) != len(values):
        raise BindingMismatchError(
            f"engine call {call.node.name!r}: the engine has {len(names)} {role}s {list(names)}, the graph has"
            f" {len(values)}"
        )
    for name, value in zip(names, values, strict=True):
        if not isinstance(value, torch.Tensor):
            raise BindingTypeError(
                f"{role} {name!r} of engine call {call.node.name!r} must be a tensor, found {type(value).__name__}"
            )
    return list(values)


def _binding(
    call: EngineCall, name: str, value: torch.Tensor, dimensions: InputDimensions
) -> Binding:
    try:
        shape = dimensions.shape(value)
    except Inexpressible as error:
        raise LoweringError(
            f"binding {name!r} of engine call {call.node.name!r} has the shape {list(value.shape)}: {error};"
            " ExecuTorch plans memory before the engine runs, so each size must follow from those of the inputs"
        ) from error
    return Binding(name, str(value.dtype).removeprefix("torch."), shape)
