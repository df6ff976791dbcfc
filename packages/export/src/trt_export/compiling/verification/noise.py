"""Changes tensors as much as rounding may have changed them, to see what becomes of it."""

from typing import Any

import torch

from trt_export.compiling.verification.agreement import NOISE


def noisy(value: Any, seed: int) -> Any:
    """Return floats or complex numbers with each a little larger or smaller; anything else as it is."""
    if isinstance(value, torch.Tensor) and value.is_complex():
        return torch.view_as_complex(noisy(torch.view_as_real(value.resolve_conj()), seed))
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, value.shape, generator=generator) * 2 - 1
    amount = NOISE.get(value.dtype, 1e-2)
    return value * (1 + amount * signs.to(device=value.device)).to(value.dtype)
