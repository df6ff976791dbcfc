"""Which sizes the inputs of a method may have: what a `.pte` itself says of them is the largest ones.

An engine checks the inputs that it reads, but some inputs only meet operators of ExecuTorch, which drop a remainder or
read past what they were planned for.
"""

from collections.abc import Container, Mapping
from typing import Any, TypeAlias

import torch
from torch.export import ExportedProgram

from trt_export.compiling.bounds import DynamicBounds
from trt_export.engines.shapes import is_dynamic, size_of, step_of
from trt_export.errors import UnboundedDimensionError

Size: TypeAlias = "int | list[int | str]"
"""A static size, or minimum, maximum, multiple, offset, and the expression: dimensions with the same one are equal."""


def input_sizes(programs: Mapping[str, ExportedProgram]) -> dict[str, list[list[Size] | None]]:
    """Return, for each method with dynamic inputs, the sizes of each tensor input and None for others.

    A minimum of 2 counts as none: torch notes it also where nobody asked for one.
    """
    found = {method: _of_program(program) for method, program in programs.items()}
    return {method: sizes for method, sizes in found.items() if sizes}


def _of_program(program: ExportedProgram) -> list[list[Size] | None]:
    values = {
        node.name: node.meta.get("val") for node in program.graph.find_nodes(op="placeholder")
    }
    inputs = [values.get(str(name)) for name in program.graph_signature.user_inputs]
    tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
    if not any(is_dynamic(size) for tensor in tensors for size in tensor.shape):
        return []
    try:
        bounds = DynamicBounds(program, None)
    except UnboundedDimensionError:
        return []  # ExecuTorch plans memory for what it takes as the maximum
    stated = {symbol for symbol, allowed in program.range_constraints.items() if allowed.lower > 2}
    return [_of_tensor(value, bounds, stated) for value in inputs]


def _of_tensor(value: Any, bounds: DynamicBounds, stated: Container[Any]) -> list[Size] | None:
    if not isinstance(value, torch.Tensor):
        return None
    sizes: list[Size] = []
    for size in value.shape:
        allowed = bounds.of(size) if is_dynamic(size) else None
        if allowed is None and is_dynamic(size):
            return None
        if allowed is None:
            sizes.append(int(size))
        else:
            expression = size_of(size)
            has_minimum = all(symbol in stated for symbol in expression.free_symbols)
            least = allowed.min if has_minimum else 0
            sizes.append([least, allowed.max, *step_of(expression), str(expression)])
    return sizes
