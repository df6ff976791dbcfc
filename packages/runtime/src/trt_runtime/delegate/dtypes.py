"""The dtypes of ExecuTorch by number: c10/core/ScalarType.h, whose numbers its schema/scalar_type.fbs shares."""

from __future__ import annotations

from collections.abc import Mapping

import torch

# Those that an engine's bindings may have.
ENGINE_DTYPES: Mapping[int, torch.dtype] = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    11: torch.bool,
    15: torch.bfloat16,
}

# Those that a program's values may have too.
PROGRAM_DTYPES: Mapping[int, torch.dtype] = {
    **ENGINE_DTYPES,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    25: torch.float8_e5m2fnuz,
    26: torch.float8_e4m3fnuz,
    27: torch.uint16,
    28: torch.uint32,
    29: torch.uint64,
}
