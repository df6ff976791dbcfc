"""Refuses operators on complex numbers that ExecuTorch's own kernels do not run, or compute wrong.

ExecuTorch (1.4) writes them into the file, and they fail when that loads or runs. What is allowed here was run as a
`.pte` and compared with PyTorch (tests/export/delegate/test_complex_numbers.py).
"""

from collections.abc import Callable, Collection
from typing import Any

import torch
from executorch.exir.tensor import dim_order_from_stride
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from trt_export.errors import ComplexNumberError
from trt_export.passes.blame import REAL_PARTS


def check_complex_numbers(
    method: str, program: ExportedProgram, exceptions: Collection[OpOverload] = ()
) -> None:
    """Check the operators of a lowered program that take or make complex numbers.

    Args:
        method: for the message.
        program: in ExecuTorch's Edge dialect. What other partitioners took, and operators of other libraries, are
            not looked at.
        exceptions: operators for which the program that will run the file has kernels of its own.

    Raises:
        ComplexNumberError: naming the first node that would fail or compute other numbers.
    """
    for module in program.graph_module.modules():
        if not isinstance(module, GraphModule):
            continue
        for node in module.graph.nodes:
            target = getattr(node.target, "_op", None)  # of an operator of the Edge dialect
            if not isinstance(target, OpOverload) or target in exceptions:
                continue
            if target.namespace not in ("aten", "dim_order_ops") or not _is_complex(node):
                continue
            name = str(target)
            refusal = _CHECKS.get(name, _no_kernel)(node)
            if refusal is not None:
                raise ComplexNumberError(
                    f"method {method!r}, node {node.name!r} ({name}): {refusal}"
                )


def _is_complex(node: Node) -> bool:
    return any(
        isinstance(value := item.meta.get("val"), torch.Tensor) and value.is_complex()
        for item in (node, *node.all_input_nodes)
    )


def _right(node: Node) -> str | None:
    return None


def _no_kernel(node: Node) -> str | None:
    return (
        "expected an operator that ExecuTorch has for complex numbers, found one that it has not: "
        f"{REAL_PARTS}"
    )


def _real_to_complex(node: Node) -> str | None:
    if not node.args[3]:
        return (
            "expected the half of a spectrum that tells the other one, found the whole, which ExecuTorch's kernel"
            " refuses: use torch.fft.rfft instead of torch.fft.fft, or onesided=True of torch.stft"
        )
    return _layout(node, "torch.fft.rfft")


def _complex_to_real(node: Node) -> str | None:
    return _layout(node, "torch.fft.irfft")


def _layout(node: Node, function: str) -> str | None:
    """The result of a transform that does not end in the last dimension has its dimensions stored in another order."""
    source, result = node.all_input_nodes[0].meta["val"], node.meta["val"]
    if dim_order_from_stride(source.stride()) == dim_order_from_stride(result.stride()):
        return None
    dims: Any = node.args[1]
    return (
        f"expected a transform whose last dimension is the tensor's, found dimensions {list(dims)} of"
        f" {source.dim()}, which ExecuTorch's kernel refuses: move that dimension to the end and the result's back,"
        f" {function}(x.movedim({dims[-1]}, -1)).movedim(-1, {dims[-1]})"
    )


def _conversion(node: Node) -> str | None:
    """Complex numbers of another precision come out as other numbers; integers are refused."""
    source, result = node.all_input_nodes[0].meta["val"].dtype, node.meta["val"].dtype
    right = result in (source, source.to_real()) if source.is_complex else source.is_floating_point
    if right:
        return None
    way_out = (
        "convert the real tensor that they are made from"
        if source.is_complex
        else "convert to a float first (x.float())"
    )
    return (
        f"expected a conversion that ExecuTorch does right, found {source} to {result}: {way_out}"
    )


_CHECKS: dict[str, Callable[[Node], str | None]] = {
    "aten._fft_r2c.default": _real_to_complex,
    "aten._fft_c2r.default": _complex_to_real,
    "dim_order_ops._to_dim_order_copy.default": _conversion,
    **dict.fromkeys(
        (
            "aten.expand_copy.default",
            "aten.permute_copy.default",
            "aten.slice_copy.Tensor",
            "aten.squeeze_copy.dims",
            "aten.unsqueeze_copy.default",
            "aten.view_as_real_copy.default",
            "dim_order_ops._clone_dim_order.default",
        ),
        _right,
    ),
}
