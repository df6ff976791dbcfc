"""Python numbers of a program as constants of the dtype that they have in PyTorch."""

from typing import Any

import onnx_ir as ir
import torch

from trt_export.compiling.converters.values import Converters, constant

aten = torch.ops.aten


def scalar_tensor(s: Any, dtype: int | None = None, **_: Any) -> Any:
    """Make a tensor of a number. torch.onnx's makes it a float32 or an int64 and converts that."""
    if not isinstance(s, (bool, int, float)) or dtype in (None, -1):
        return NotImplemented
    return constant(s, ir.DataType(dtype))


CONVERTERS: Converters = {aten.scalar_tensor.default: scalar_tensor}
