"""Making of what a caller gives memory that ExecuTorch can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..errors import InputError
from .limits import refusals
from .signature import Signature, Value


def prepare(where: str, inputs: Sequence[Any], signature: Signature) -> list[Any]:
    """Check the inputs against the method's tables, and make plain contiguous tensors of them.

    Raises:
        InputError: there are more or fewer inputs, one is of another kind, dtype, rank or size, sizes do not belong
            together, or one has no memory that ExecuTorch can read.

    """
    if type(inputs) not in (list, tuple) and (
        not isinstance(inputs, Sequence) or isinstance(inputs, (str, bytes))
    ):
        raise InputError(
            f"{where}: expected a list of inputs, found {type(inputs).__name__}; pass [x] for a single input x"
        )
    expected = signature.inputs
    if len(inputs) != len(expected):
        raise InputError(
            f"{where}: expected {len(expected)} inputs, found {len(inputs)}; pass one for each input that the "
            "method was exported with, in that order"
        )
    prepared = []
    for index, (value, one) in enumerate(zip(inputs, expected, strict=True)):
        try:
            prepared.append(_prepare_one(value, one))
        except InputError as error:
            raise InputError(f"{_place(where, index, signature)}: {error}") from None
    for index, reason in refusals(signature.limits, prepared) if signature.limits else ():
        raise InputError(f"{_place(where, index, signature)}: {reason}")
    return prepared


def _place(where: str, index: int, signature: Signature) -> str:
    name = f" ({signature.names[index]})" if signature.names else ""
    return f"{where}, input {index}{name}"


def _prepare_one(value: Any, expected: Value) -> Any:
    if isinstance(value, torch.Tensor):
        value = _plain(value)
    elif value is not None and not isinstance(value, (int, float)):
        raise InputError(
            f"expected a tensor, a number or None, found {type(value).__name__}; convert it, such as with "
            "torch.from_numpy"
        )
    refusal = expected.early_refusal(value)
    if refusal is not None:
        raise InputError(refusal)
    return value


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as a contiguous tensor of torch's own class; raises InputError."""
    if type(tensor) is not torch.Tensor:
        tensor = _without_class(tensor)
    device = tensor.device.type
    if device != "cpu":
        mend = "give one that has values" if device == "meta" else "move it: .cpu()"
        raise InputError(f"expected a tensor on the CPU, found one on {tensor.device}; {mend}")
    if tensor.is_nested:
        raise InputError(
            "expected a tensor with one size for each dimension, found a nested one; convert it: "
            ".to_padded_tensor(0)"
        )
    if tensor.layout != torch.strided:
        raise InputError(f"expected a dense tensor, found {tensor.layout}; convert it: .to_dense()")
    if tensor.is_quantized:
        raise InputError(
            f"expected plain numbers, found the quantized {tensor.dtype}; convert it: .dequantize() or .int_repr()"
        )
    _check_memory(tensor)
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg() or tensor.is_conj():  # the memory holds other values than the tensor
        tensor = tensor.resolve_conj().resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def _without_class(tensor: torch.Tensor) -> torch.Tensor:
    """Take off a subclass that adds nothing but names; others hold their values elsewhere."""
    kind = type(tensor)
    if kind.__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise InputError(
            f"expected a tensor with memory of its own, found a {kind.__module__}.{kind.__qualname__}; convert it "
            "to a plain torch.Tensor"
        )
    with torch._C.DisableTorchFunctionSubclass():
        return tensor.as_subclass(torch.Tensor)


def _check_memory(tensor: torch.Tensor) -> None:
    """Storage may have been resized under a tensor."""
    elements = tensor.numel()
    if not elements:
        return
    last = elements - 1
    if not tensor.is_contiguous():
        last = sum(
            (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
        )
    needed = (tensor.storage_offset() + last + 1) * tensor.itemsize
    found = tensor.untyped_storage().nbytes()
    if found < needed:
        raise InputError(
            f"expected memory of {needed} bytes or more behind the tensor, found {found}; its storage was resized: "
            "make the tensor again"
        )
