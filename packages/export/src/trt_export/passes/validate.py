"""Checks that engine calls can be lowered, before anything is changed."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind
from torch.fx import Node

from trt_export.engines.find import EngineCall
from trt_export.engines.metadata import Binding
from trt_export.engines.record import EngineRecord
from trt_export.errors import (
    BindingMismatchError,
    BindingTypeError,
    ConstantDeviceError,
    DynamicNumberError,
    LoweringError,
    OutputAllocatorError,
    StringArgumentError,
)

_EXAMPLES = {"int": "5", "float": "0.5", "bool": "True"}


def validate_call(call: EngineCall, record: EngineRecord) -> None:
    """Check a call against its engine's record and the graph's own shapes and dtypes.

    Raises:
        OutputAllocatorError: an engine whose output sizes cannot be known ahead of its run.
        BindingMismatchError: another number of inputs or outputs than the engine has.
        BindingTypeError: another dtype, rank or static size.
        LoweringError: an engine that spans several devices.
    """
    node = call.node
    if record.requires_output_allocator:
        raise OutputAllocatorError(
            f"engine {record.name!r} (node {node.name!r}) requires an output allocator: the sizes of"
            f" {_names(record.outputs)} are known only after it has run, and ExecuTorch plans memory before."
            " Keep the op with the data-dependent shape (such as nonzero) out of the compiled part"
        )
    if record.requires_native_multidevice:
        raise LoweringError(
            f"engine {record.name!r} (node {node.name!r}) spans several devices; a delegate runs on one"
        )
    _check_bindings(call, "input", record.inputs, [item.name for item in call.inputs])
    for binding, item in zip(record.inputs, call.inputs, strict=True):
        _check_tensor(call, "input", binding, item.name, value_of(item))
    values = outputs_of(call)
    _check_bindings(
        call, "output", record.outputs, [f"{node.name}[{k}]" for k in range(len(values))]
    )
    for index, (binding, value) in enumerate(zip(record.outputs, values, strict=True)):
        _check_tensor(call, "output", binding, f"{node.name}[{index}]", value)


def validate_precision(call: EngineCall, record: EngineRecord, plan_format: str) -> None:
    """Check that a plan of this format computes in the dtypes that the graph has.

    Raises:
        BindingTypeError: float64, which TensorRT does not have.
    """
    if plan_format == "onnxruntime":
        return
    for role, bindings in (("input", record.inputs), ("output", record.outputs)):
        for binding in bindings:
            if binding.dtype == "float64":
                raise BindingTypeError(
                    f"{role} {binding.name!r} of engine call {call.node.name!r} is float64, which {plan_format}"
                    " engines compute in float32 without a word: convert the model to float32 before torch.export"
                )


def validate_constants(method: str, program: ExportedProgram) -> None:
    """Check that every weight and constant is on the CPU: ExecuTorch crashes on others.

    Raises:
        ConstantDeviceError: naming the first that is not.
    """
    for name, value in (*program.state_dict.items(), *program.constants.items()):
        if isinstance(value, torch.Tensor) and value.device.type != "cpu":
            raise ConstantDeviceError(
                f"{name!r} of method {method!r} is on {value.device}, a .pte is written from CPU memory:"
                " move the model to the CPU before torch.export (model.cpu())"
            )


def validate_inputs(method: str, program: ExportedProgram) -> None:
    """Check that no input is a number that may change: a `.pte` has no place for one, and ExecuTorch aborts.

    Raises:
        StringArgumentError: an input or output is a string.
        DynamicNumberError: naming the first.
    """
    inputs = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT and hasattr(spec.arg, "name")
    }
    for role, specs in (
        ("input", program.graph_signature.input_specs),
        ("output", program.graph_signature.output_specs),
    ):
        for number, spec in enumerate(specs):
            if isinstance(spec.arg, ConstantArgument) and isinstance(spec.arg.value, str):
                name = spec.arg.name or str(number)
                raise StringArgumentError(
                    f"{role} {name!r} of method {method!r}: expected a tensor, a number or None, found the string"
                    f" {spec.arg.value!r:.80}, for which a .pte has no place: "
                    + (
                        "set it in the model's __init__, or export a wrapper that passes it"
                        if role == "input"
                        else "export a wrapper that returns the other outputs"
                    )
                )
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if node.name in inputs and isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            kind = {torch.SymInt: "int", torch.SymFloat: "float", torch.SymBool: "bool"}[
                type(value)
            ]
            raise DynamicNumberError(
                f"input {node.name!r} of method {method!r}: expected a tensor or a constant, found {kind} {value} that"
                f" may change, for which a .pte has no place: take a tensor in the model instead"
                f" (torch.tensor({_EXAMPLES[kind]})), or export it as a constant (dynamic_shapes None for it)"
            )


def _check_bindings(
    call: EngineCall, role: str, bindings: Sequence[Binding], found: Sequence[str]
) -> None:
    if len(bindings) != len(found):
        raise BindingMismatchError(
            f"engine call {call.node.name!r}: the engine has {len(bindings)} {role}s {_names(bindings)},"
            f" the graph has {len(found)}: {list(found)}"
        )


def _check_tensor(call: EngineCall, role: str, binding: Binding, place: str, value: Any) -> None:
    where = f"{role} {binding.name!r} of engine call {call.node.name!r} ({place!r} in the graph)"
    if not isinstance(value, torch.Tensor):
        raise BindingTypeError(f"{where} must be a tensor, found {type(value).__name__}")
    dtype = str(value.dtype).removeprefix("torch.")
    if dtype != binding.dtype:
        raise BindingTypeError(f"{where} is {binding.dtype} in the engine, {dtype} in the graph")
    shape = tuple(value.shape)
    if len(shape) != len(binding.shape):
        raise BindingTypeError(
            f"{where} has rank {len(binding.shape)} {_shape(binding.shape)} in the engine,"
            f" rank {len(shape)} {_shape(shape)} in the graph"
        )
    for dim, (expected, size) in enumerate(zip(binding.shape, shape, strict=True)):
        if not _fits(binding, dim, expected, size):
            raise BindingTypeError(
                f"{where}: dimension {dim} is {_allowed(binding, dim)} in the engine, {size} in the graph;"
                " compile the program with the dimensions that it has"
            )


def _fits(binding: Binding, dim: int, expected: int | str, size: Any) -> bool:
    if isinstance(expected, int):
        return isinstance(size, int) and size == expected
    if not isinstance(size, int) or binding.minimum is None or binding.maximum is None:
        return True  # Sizes that only a run knows are checked by the run.
    if not binding.minimum[dim] <= size <= binding.maximum[dim]:
        return False
    multiple, offset = _step(binding, dim)
    return size % multiple == offset


def _allowed(binding: Binding, dim: int) -> str:
    if isinstance(binding.shape[dim], int) or binding.minimum is None or binding.maximum is None:
        return str(binding.shape[dim])
    allowed = f"{binding.minimum[dim]} to {binding.maximum[dim]}"
    multiple, offset = _step(binding, dim)
    if multiple == 1:
        return allowed
    return f"{allowed}, a multiple of {multiple}" + (f" plus {offset}" if offset else "")


def _step(binding: Binding, dim: int) -> tuple[int, int]:
    if binding.multiple is None or binding.offset is None:
        return 1, 0
    return binding.multiple[dim], binding.offset[dim]


def value_of(node: Node) -> Any:
    """What the graph says of a node's value.

    Raises:
        LoweringError: it says nothing.
    """
    if "val" not in node.meta:
        raise LoweringError(
            f"node {node.name!r} carries no shape (meta['val']): the graph was edited by hand; export it again"
        )
    return node.meta["val"]


def outputs_of(call: EngineCall) -> Sequence[Any]:
    """What the graph says of a call's outputs.

    Raises:
        LoweringError: it says nothing.
        BindingTypeError: they are no list.
    """
    value_of(call.node)
    if not isinstance(call.outputs, list | tuple):
        raise BindingTypeError(
            f"engine call {call.node.name!r} should give a list of tensors, not {call.outputs!r:.80}"
        )
    return call.outputs


def _names(bindings: Iterable[Binding]) -> list[str]:
    return [binding.name for binding in bindings]


def _shape(shape: Iterable[Any]) -> str:
    return f"[{', '.join(map(str, shape))}]"
