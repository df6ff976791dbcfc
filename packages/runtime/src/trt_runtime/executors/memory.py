"""Memory that others own, as executors are given it."""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

import torch


class Region(NamedTuple):
    """A contiguous tensor by its address; whoever made it keeps the memory alive."""

    address: int
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @classmethod
    def of(cls, tensor: torch.Tensor) -> Region:
        """Return the region of a contiguous tensor."""
        return cls(tensor.data_ptr(), tensor.dtype, tuple(tensor.shape))

    def as_tensor(self) -> torch.Tensor:
        """Return it as a tensor, if it is the CPU's memory: no copy, and as short-lived as the memory."""
        if not self.nbytes:
            return torch.empty(self.shape, dtype=self.dtype)
        memory = (ctypes.c_uint8 * self.nbytes).from_address(self.address)
        return torch.frombuffer(memory, dtype=self.dtype).view(self.shape)

    def view_of(self, memory: torch.Tensor) -> torch.Tensor:
        """Return a tensor of its dtype and shape over the first bytes of other memory."""
        return memory[: self.nbytes].view(self.dtype).view(self.shape)


def copy(source: Region, target: Region) -> None:
    """Copy one region of the CPU's memory to another of the same size; they may be the same."""
    ctypes.memmove(target.address, source.address, source.nbytes)
