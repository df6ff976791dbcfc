"""Refuses operators that ExecuTorch computes wrong: results whose number of rows only a run tells, stored by columns.

PyTorch lays out the result of `nonzero` by columns, which ExecuTorch (1.4) takes over into the file; its kernel writes
by rows. For a result of one column, both are the same.
"""

import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from trt_export.errors import DataDependentShapeError


def check_data_dependent_shapes(method: str, program: ExportedProgram) -> None:
    """Check the results of a lowered program.

    Raises:
        DataDependentShapeError: naming the first node whose result comes out in the wrong order.
    """
    for node in program.graph.nodes:
        value = node.meta.get("val")
        if (
            node.op != "call_function"
            or not isinstance(value, torch.Tensor)
            or value.dim() < 2
            or not getattr(node.target, "__name__", "").startswith("aten.nonzero")
            or not free_unbacked_symbols(value.shape[0])
            or value.shape[1] == 1
        ):
            continue
        raise DataDependentShapeError(
            f"method {method!r}, node {node.name!r} ({getattr(node.target, '__name__', node.target)}): expected at most"
            f" one index for each element, found {value.shape[1]}, which ExecuTorch's kernel writes in another order"
            " than the file says: take indices of the flat tensor (x.flatten().nonzero()) and compute rows and columns"
            " from them (i // x.shape[1], i % x.shape[1]), or use the mask itself with torch.where(mask, x, 0)"
        )
