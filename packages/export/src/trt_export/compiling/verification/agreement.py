"""Whether two tensors are the same up to rounding."""

import numpy as np
import torch

# Of the largest number in the tensor. This finds wrong formulas, not rounding: a difference beyond it is looked into.
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.float16: 1e-2}

# A relative change of operands that rounding alone may make.
NOISE = {torch.float64: 1e-14, torch.float32: 1e-6, torch.float16: 1e-3}


def as_array(value: torch.Tensor) -> np.ndarray:
    """Return a tensor of any device as an array for ONNX Runtime."""
    array: np.ndarray = value.detach().cpu().contiguous().numpy()
    return array


def as_real(value: torch.Tensor) -> torch.Tensor:
    """Return complex numbers as engines have them, with real and imaginary part last; real tensors as they are."""
    return torch.view_as_real(value.resolve_conj()) if value.is_complex() else value


def as_tensor(found: np.ndarray, expected: torch.Tensor) -> torch.Tensor | None:
    """Return what ONNX Runtime computed in the dtype of PyTorch's value; None if it is another kind of value."""
    if list(found.shape) != list(expected.shape):
        return None
    tensor = torch.from_numpy(np.ascontiguousarray(found)).reshape(expected.shape)
    if tensor.is_floating_point() != expected.is_floating_point():
        return None
    return tensor.to(expected.dtype)


def agree(found: np.ndarray, expected: torch.Tensor) -> bool:
    """Whether they are the same: up to the tolerance of the dtype, integers and booleans exactly."""
    tensor = as_tensor(found, expected.detach().cpu())
    return tensor is not None and not differing(tensor, expected.detach().cpu()).any()


def differing(
    found: torch.Tensor, expected: torch.Tensor, allowed: torch.Tensor | None = None
) -> torch.Tensor:
    """Return where they differ by more than the tolerance and, element by element, `allowed` besides."""
    if not expected.is_floating_point():
        wrong = found != expected
        if allowed is not None and expected.dtype is not torch.bool:
            wrong &= (found.double() - expected.double()).abs() > allowed
        return wrong
    tolerance = _TOLERANCES.get(expected.dtype, 1e-2)
    one, other = found.double(), expected.double()
    finite = other[other.isfinite()]
    scale = float(finite.abs().max()) if finite.numel() else 0.0
    limit = tolerance * (other.abs() + scale)
    if allowed is not None:
        limit = limit + allowed
    same = (one == other) | (one.isnan() & other.isnan())
    close = (one - other).abs() <= torch.where(other.isfinite() & one.isfinite(), limit, -1.0)
    return ~(same | close)
