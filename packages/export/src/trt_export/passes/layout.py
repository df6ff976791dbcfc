"""Contiguous memory for everything that a lowered program takes, keeps and computes.

An engine reads contiguous memory. A program that was exported with `channels_last` (or otherwise permuted) examples,
weights or buffers would give it memory in that order, and ExecuTorch would refuse inputs in any other. The order of
dimensions in memory never changes values, so all of it becomes contiguous.
"""

from typing import Any

import torch
from torch.fx import Graph, Node

from trt_export.errors import LoweringError

_FORMATS = (torch.channels_last, torch.channels_last_3d)
_VIEWS = (torch.ops.aten.view.default, torch.ops.aten._unsafe_view.default)
_STRIDED = (torch.ops.aten.as_strided, torch.ops.aten.as_strided_copy)


def make_contiguous(graph: Graph) -> None:
    """Make placeholders contiguous, and requests for another memory format ones for contiguous memory.

    ExecuTorch's lowering then computes the shapes of all other nodes anew. A graph that is contiguous already does not
    change.

    Raises:
        LoweringError: a node reads memory by its strides.
    """
    changed = [node.name for node in graph.nodes if _make_node_contiguous(node)]
    if not changed:
        return
    for node in graph.nodes:
        if node.target in _VIEWS:
            # A view of permuted memory may need a copy of contiguous memory.
            node.target = torch.ops.aten.reshape.default
        elif getattr(node.target, "overloadpacket", None) in _STRIDED:
            raise LoweringError(
                f"node {node.name!r}: expected operators that do not depend on strides, found as_strided in a program"
                f" in which {changed[0]!r} is not contiguous: export it with contiguous inputs and weights, or use"
                " slicing and permute instead"
            )


def contiguous(value: torch.Tensor) -> torch.Tensor:
    """Return the tensor with the strides of a new one, itself if it has them."""
    if value.layout != torch.strided or value.stride() == _strides(value):
        return value
    with torch.no_grad():
        copy = torch.empty(value.shape, dtype=value.dtype, device=value.device).copy_(value)
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=value.requires_grad)
    return copy


def _make_node_contiguous(node: Node) -> bool:
    """Return whether the node was changed."""
    if node.op == "placeholder":
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
            return False
        copy = value.new_empty(value.shape)
        if [_expression(n) for n in value.stride()] == [_expression(n) for n in copy.stride()]:
            return False
        node.meta["val"] = copy.requires_grad_(value.requires_grad)
        return True
    if node.kwargs.get("memory_format") in _FORMATS:
        node.kwargs = {**node.kwargs, "memory_format": torch.contiguous_format}
        return True
    return False


def _strides(value: torch.Tensor) -> tuple[int, ...]:
    return torch.empty(value.shape, device="meta").stride()


def _expression(size: Any) -> Any:
    """A number, or a symbolic one as its expression, which is compared without a guard."""
    return size.node.expr if isinstance(size, torch.SymInt) else size
