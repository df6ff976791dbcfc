"""Fourier transforms of short rows: a product with a matrix, which every builder takes, and no parser refuses.

ONNX has operators of its own, DFT and STFT; TensorRT has neither, and ONNX Runtime computes lengths that are no powers
of 2 one by one. Rows that are too long for a matrix are left to torch.onnx's converters.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import (
    Converter,
    NoExactTranslationError,
    Wrappers,
    constant,
    op,
)

aten = torch.ops.aten

_INT64 = ir.DataType.INT64
_LONGEST = 1024
"""Of a matrix: 1024 complex numbers to as many are 16 MB in float32."""
_LARGEST = 2**22
"""The elements of a matrix of a short-time transform: a window of 2048."""


def complex_to_complex(upstream: Converter) -> Converter:
    """Return a converter of `_fft_c2c`."""

    def convert(self: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
        rank, dtype = len(self.shape) - 1, self.dtype
        if not all(_is_short(self, d % rank) for d in dim):
            return upstream(self, dim, normalization, forward)
        for d in dim:
            size = self.shape[d % rank]
            matrix = _matrix(size, size, forward) * _scale(size, normalization)
            self = _along(self, d % rank, _of_pairs(matrix), dtype)
        return self

    return convert


def real_to_complex(upstream: Converter) -> Converter:
    """Return a converter of `_fft_r2c`, which gives the first half of the result in the last dimension alone."""

    def convert(self: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
        rank = len(self.shape)
        if not all(_is_short(self, d % rank) for d in dim):
            return upstream(self, dim, normalization, onesided)
        *others, last = (d % rank for d in dim)
        size = self.shape[last]
        kept = size // 2 + 1 if onesided else size
        matrix = _matrix(size, kept, forward=True) * _scale(size, normalization)
        made = _along(self, last, np.stack([matrix.real, matrix.imag], -1), self.dtype, real=True)
        for d in others:
            size = self.shape[d]
            full = _matrix(size, size, forward=True) * _scale(size, normalization)
            made = _along(made, d, _of_pairs(full), self.dtype)
        return made

    return convert


def complex_to_real(upstream: Converter) -> Converter:
    """Return a converter of `_fft_c2r`, which takes the first half of what it transforms in the last dimension."""

    def convert(self: Any, dim: Sequence[int], normalization: int, last_dim_size: Any) -> Any:
        rank, dtype = len(self.shape) - 1, self.dtype
        if not (
            isinstance(last_dim_size, int)
            and last_dim_size <= _LONGEST
            and all(_is_short(self, d % rank) for d in dim)
        ):
            return upstream(self, dim, normalization, last_dim_size)
        *others, last = (d % rank for d in dim)
        for d in others:
            size = self.shape[d]
            matrix = _matrix(size, size, forward=False) * _scale(size, normalization)
            self = _along(self, d, _of_pairs(matrix), dtype)
        half = last_dim_size // 2 + 1
        if self.shape[last] != half:
            raise NoExactTranslationError(
                f"it has {self.shape[last]} frequencies for {last_dim_size} numbers, not {half}"
            )
        matrix = _matrix(half, last_dim_size, forward=False, period=last_dim_size)
        matrix = matrix * _scale(last_dim_size, normalization)
        twice = np.full((half, 1), 2.0)
        twice[0] = 1
        if last_dim_size % 2 == 0:
            twice[-1] = 1
        matrix = matrix * twice
        return _along(self, last, np.stack([matrix.real, -matrix.imag], 1), dtype, to_real=True)

    return convert


def short_time(upstream: Converter) -> Converter:
    """Return a converter of `stft`: a convolution with the windowed waves."""

    def convert(
        self: Any,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: Any = None,
        normalized: bool = False,
        onesided: bool | None = None,
        return_complex: bool | None = None,
        align_to_window: bool | None = None,
    ) -> Any:
        rank = len(self.shape)
        kept = n_fft // 2 + 1 if onesided is None or onesided else n_fft
        if rank not in (1, 2) or align_to_window:
            raise NoExactTranslationError("it transforms complex numbers, or aligns to the window")
        if 2 * kept * n_fft > _LARGEST:
            return upstream(
                self,
                n_fft,
                hop_length,
                win_length,
                window,
                normalized,
                onesided,
                return_complex,
            )
        length = n_fft if win_length is None else win_length
        left = (n_fft - length) // 2
        matrix = _matrix(n_fft, kept, forward=True)
        if normalized:
            matrix = matrix / math.sqrt(n_fft)
        waves = np.concatenate([matrix.real, matrix.imag], 1).T[:, None, left : left + length]
        kernel = _constant(waves, self.dtype)
        if window is not None:
            kernel = op.Mul(kernel, window)
        if left or length < n_fft:
            ends = constant([0, 0, left, 0, 0, n_fft - length - left], _INT64)
            kernel = op.Pad(kernel, ends)
        axes = constant([0, 1] if rank == 1 else [1], _INT64)
        signal = op.Unsqueeze(self, axes)
        made = op.Conv(signal, kernel, strides=[hop_length or n_fft // 4])
        # [batch, parts * frequencies, frames] to [batch, frequencies, frames, parts]
        made = op.Reshape(made, constant([0, 2, kept, -1], _INT64))
        made = op.Transpose(made, perm=[0, 2, 3, 1])
        return op.Squeeze(made, constant([0], _INT64)) if rank == 1 else made

    return convert


def _is_short(value: Any, dimension: int) -> bool:
    size = value.shape[dimension]
    return isinstance(size, int) and 0 < size <= _LONGEST


def _matrix(size: int, results: int, forward: bool, period: int | None = None) -> np.ndarray:
    """Return the transform of `size` numbers to `results`; exact angles, since integers are reduced first."""
    period = size if period is None else period
    turns = (np.arange(size)[:, None] * np.arange(results)[None, :]) % period
    angles = 2 * np.pi * turns / period
    real, imaginary = np.cos(angles), np.sin(angles) * (-1 if forward else 1)
    # Exactly 0, and not -0, where it is: the imaginary part of the mean decides the sign of its angle.
    real, imaginary = (np.where(np.abs(one) < 1e-14, 0.0, one) for one in (real, imaginary))
    made: np.ndarray = real + 1j * imaginary
    return made


def _constant(matrix: np.ndarray, dtype: ir.DataType) -> Any:
    return constant(np.ascontiguousarray(matrix, dtype=dtype.numpy()), dtype)


def _scale(size: int, normalization: int) -> float:
    """Return the factor of one dimension: none, by the root of the length, by the length."""
    return (1.0, 1 / math.sqrt(size), 1 / size)[normalization]


def _of_pairs(matrix: np.ndarray) -> np.ndarray:
    """Return the matrix for pairs, of shape [numbers, parts, results, parts]."""
    real, imaginary = matrix.real, matrix.imag
    rows = [np.stack([real, imaginary], -1), np.stack([-imaginary, real], -1)]
    return np.stack(rows, 1)


def _along(
    value: Any,
    dimension: int,
    matrix: np.ndarray,
    dtype: ir.DataType,
    *,
    real: bool = False,
    to_real: bool = False,
) -> Any:
    """Multiply along a dimension of a tensor of pairs, or of real numbers; so is the result."""
    rank = len(value.shape) if real else len(value.shape) - 1
    others = [d for d in range(rank) if d != dimension]
    pair_in = [] if real else [rank]
    pair_out = [] if to_real else [rank]
    numbers = value.shape[dimension] * (1 if real else 2)
    moved = op.Transpose(value, perm=[*others, dimension, *pair_in])
    flat = op.Reshape(moved, constant([0] * len(others) + [numbers], _INT64))
    weights = _constant(matrix.reshape(numbers, -1), dtype)
    product = op.MatMul(flat, weights)
    if not to_real:
        product = op.Reshape(product, constant([0] * len(others) + [-1, 2], _INT64))
    back = list(range(len(others)))
    back.insert(dimension, len(others))
    result = op.Transpose(product, perm=[*back, *pair_out])
    shape = list(value.shape)[:rank]
    shape[dimension] = matrix.size // numbers // (1 if to_real else 2)
    # No dtype: torch.onnx gives a value that has one the shape of the complex tensor, without the parts.
    result.shape = ir.Shape([*shape, *([] if to_real else [2])])
    return result


WRAPPERS: Wrappers = {
    aten._fft_c2c.default: complex_to_complex,
    aten._fft_r2c.default: real_to_complex,
    aten._fft_c2r.default: complex_to_real,
    aten.stft.default: short_time,
}
