"""What is known of operators whose results jump: a rounding just before them changes an integer, an index, a flag."""

from collections.abc import Sequence

import torch
from torch._ops import OpOverload
from torch.fx import Node

from trt_export.compiling.support import owner
from trt_export.compiling.verification.recording import Evaluation

# Their results are floats and jump as integers do.
_STEPS = frozenset({"round", "floor", "ceil", "trunc", "sign", "sgn", "frac", "heaviside"})
# They divide, and what they make of the quotient jumps: PyTorch and ONNX round the division otherwise.
_DIVIDING = ("div", "remainder", "fmod", "quantize")
_ORDERING = frozenset({"topk", "sort", "argsort", "kthvalue", "median"})

# Their results are whatever was in the memory: the program writes it later.
_UNWRITTEN = frozenset({"empty", "empty_like", "empty_strided", "empty_permuted", "new_empty"})


def jumps(node: Node) -> bool:
    """Whether a small change of the node's operands may change its result by much."""
    source = owner(node)
    name = _name(source)
    if name in _STEPS or name in _ORDERING or _divides_to_integers(source):
        return True
    values = _tensors(node.meta.get("val"))
    operands = [v for used in source.all_input_nodes for v in _tensors(used.meta.get("val"))]
    return any(not value.is_floating_point() for value in values) and any(
        operand.is_floating_point() for operand in operands
    )


def is_quantization(node: Node) -> bool:
    """Whether the node makes int8 of float32: fused with what is before it, it may round to the next step."""
    return _name(node).startswith("quantize")


def has_own_rounding(node: Node) -> bool:
    """Whether two right implementations may differ on the very same operands."""
    source = owner(node)
    name = _name(source)
    if any(part in name for part in _DIVIDING):
        return True
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_floating_point() and name not in _STEPS


def same_up_to_order_of_ties(
    node: Node, evaluation: Evaluation, found: torch.Tensor, expected: torch.Tensor
) -> bool:
    """Whether these are indices of a sort or of the largest numbers that differ only among equal numbers.

    PyTorch does not say which of them come first, unless the sort is stable. (Of `argmax` it does: the first.)
    """
    source = owner(node)
    if _name(source) not in _ORDERING or found.is_floating_point() or found.dtype is torch.bool:
        return False
    target = source.target
    assert isinstance(target, OpOverload)
    schema = target._schema.arguments
    given = {
        argument.name: source.args[position]
        if position < len(source.args)
        else argument.default_value
        for position, argument in enumerate(schema)
    } | dict(source.kwargs)
    operand = evaluation.value(source.all_input_nodes[0])
    dimension = given.get("dim", -1)
    if given.get("stable") or not isinstance(dimension, int) or not operand.dim():
        return False
    length = operand.shape[dimension]
    if found.dim() != operand.dim() or bool(((found < 0) | (found >= length)).any()):
        return False
    in_order = found.sort(dimension).values
    if found.shape[dimension] > 1 and bool((in_order.diff(dim=dimension) == 0).any()):
        return False
    one, other = operand.gather(dimension, found), operand.gather(dimension, expected)
    return bool(((one == other) | (one.isnan() & other.isnan())).all())


def undefined(node: Node, evaluation: Evaluation, expected: torch.Tensor) -> torch.Tensor:
    """Return where PyTorch leaves the result open.

    That is memory before anything is written to it, and a conversion to integers of what is no such integer.
    """
    if _name(node) in _UNWRITTEN:
        return torch.ones_like(expected, dtype=torch.bool)
    nothing = torch.zeros_like(expected, dtype=torch.bool)
    if expected.is_floating_point() or expected.dtype is torch.bool:
        return nothing
    if _name(node) not in ("_to_copy", "to", "convert_element_type", "type_as"):
        return nothing
    operand = evaluation.value(node.all_input_nodes[0])
    if not operand.is_floating_point() or operand.shape != expected.shape:
        return nothing
    limits = torch.iinfo(expected.dtype)
    number = operand.double()
    fits: torch.Tensor = (number > float(limits.min) - 1) & (number < float(limits.max))
    return ~fits


def _divides_to_integers(node: Node) -> bool:
    name = _name(node)
    if "remainder" in name or "fmod" in name or "floor_divide" in name:
        return True
    return name == "div" and isinstance(node.kwargs.get("rounding_mode"), str)


def _name(node: Node) -> str:
    return (
        str(node.target._schema.name).split("::")[-1] if isinstance(node.target, OpOverload) else ""
    )


def _tensors(value: object) -> Sequence[torch.Tensor]:
    values = value if isinstance(value, (tuple, list)) else (value,)
    return [each for each in values if isinstance(each, torch.Tensor)]
