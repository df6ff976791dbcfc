"""Says which nodes cannot be offered to a builder at all, whatever its parser would say."""

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Node

from trt_export.compiling.torch_onnx import has_converter

# The dtypes of bindings in docs/engine-record.md.
BINDING_DTYPES = {
    torch.float32: "float32",
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float64: "float64",
    torch.int64: "int64",
    torch.int32: "int32",
    torch.int16: "int16",
    torch.int8: "int8",
    torch.uint8: "uint8",
    torch.bool: "bool",
}

# What complex tensors are made of inside an engine; they are no bindings.
_COMPONENTS = {torch.complex64: torch.float32, torch.complex128: torch.float64}

# Arguments that make a random operator a plain one: dropout(p=0), dropout(train=False), attention(dropout_p=0).
_NO_DROPOUT: dict[str, float | bool] = {"p": 0, "dropout_p": 0, "train": False, "training": False}

# Arguments that make an operator learn from its input. torch.onnx's converters ignore some of them: batch norm in
# training would come out as batch norm in evaluation.
_TRAINING: dict[str, float | bool] = {"train": True, "training": True}


def is_computation(node: Node) -> bool:
    """Whether the node makes tensors or reads one; the rest (sizes, checks, taking an item) is bookkeeping."""
    if node.op != "call_function" or node.target is operator.getitem:
        return False
    if any(isinstance(value, torch.Tensor) for value in values_of(node)):
        return True
    return (
        isinstance(node.target, OpOverload) and torch.Tag.data_dependent_output in node.target.tags
    )


def is_complex(value: Any) -> bool:
    """Whether it is a tensor of complex numbers."""
    return isinstance(value, torch.Tensor) and value.is_complex()


def owner(node: Node) -> Node:
    """Return the operator that made the list which the node takes a result out of, or else the node."""
    return node.all_input_nodes[0] if node.target is operator.getitem else node


def is_metadata_check(node: Node) -> bool:
    """Whether the node only checks dtype, device or layout of a tensor: of an engine's, the engine's record does."""
    if node.target is not torch.ops.aten._assert_tensor_metadata.default:
        return False
    size_and_stride = (*node.args[1:3], node.kwargs.get("size"), node.kwargs.get("stride"))
    return all(value is None for value in size_and_stride)


def values_of(node: Node) -> Iterator[Any]:
    """Go through what the node returns: fake tensors, sizes."""
    value = node.meta.get("val")
    yield from value if isinstance(value, (tuple, list)) else (value,)


def reasons_against(nodes: Iterable[Node], refused_dtypes: Mapping[str, str]) -> dict[Node, str]:
    """Return why a node cannot become part of an engine, for every computation among `nodes` that cannot."""
    return {
        node: reason
        for node in nodes
        if is_computation(node) and (reason := _reason_against(node, refused_dtypes)) is not None
    }


def _reason_against(node: Node, refused_dtypes: Mapping[str, str]) -> str | None:
    target = node.target
    if isinstance(target, HigherOrderOperator):
        return "control flow and other higher-order operators stay in PyTorch"
    if not isinstance(target, OpOverload):
        return f"{target} is no operator of a library"
    if target.namespace == "trt_runtime":
        return "it is an engine already"
    if target._schema.is_mutable:
        return "it changes its argument in place"
    if torch.Tag.nondeterministic_seeded in target.tags and not _has_argument(node, _NO_DROPOUT):
        return "it is random, and an engine would draw other numbers than PyTorch"
    if _has_argument(node, _TRAINING):
        return "it is in training mode: call .eval() on the model before torch.export"
    if torch.Tag.data_dependent_output in target.tags:
        return "it reads a tensor's value into a number of the program"
    operands = [value for source in node.all_input_nodes for value in values_of(source)]
    if any(map(is_complex, operands)):
        if not has_converter(target, of_complex=True):
            return "there is no converter of it for complex numbers"
    elif not has_converter(target):
        return "torch.onnx has no converter for it"
    return _reason_against_values(node, refused_dtypes)


def _reason_against_values(node: Node, refused_dtypes: Mapping[str, str]) -> str | None:
    if any(source.op == "get_attr" for source in node.all_input_nodes):
        return "it uses an attribute of the graph module"
    devices = set()
    for value in (
        *values_of(node),
        *(value for source in node.all_input_nodes for value in values_of(source)),
    ):
        if value is None or isinstance(value, (int, torch.SymInt)):
            continue
        if not isinstance(value, torch.Tensor):
            return f"it uses a {type(value).__name__}, and engines take tensors only"
        if value.layout is not torch.strided:
            return f"it uses a tensor of layout {value.layout}"
        name = BINDING_DTYPES.get(_COMPONENTS.get(value.dtype, value.dtype))
        if name is None:
            return f"engines have no {value.dtype}"
        if name in refused_dtypes:
            return refused_dtypes[name]
        devices.add(value.device)
    if len(devices) > 1:
        return f"it moves data between devices ({', '.join(sorted(map(str, devices)))})"
    return None


def _has_argument(node: Node, values: Mapping[str, float | bool]) -> bool:
    """Whether one of the named arguments has, given or by default, its value in `values`."""
    assert isinstance(node.target, OpOverload)
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.name in values:
            given = node.args[position] if position < len(node.args) else argument.default_value
            if node.kwargs.get(argument.name, given) == values[argument.name]:
                return True
    return False
