"""Has ExecuTorch write the initial values of buffers that a program mutates."""

import torch
from torch.export import ExportedProgram


def keep_initial_state(program: ExportedProgram) -> None:
    """Have ExecuTorch write the initial values of mutated buffers, which it else leaves at zero."""
    mutated = set(program.graph_signature.buffers_to_mutate.values())
    buffers = program.graph_signature.inputs_to_buffers
    for node in program.graph.nodes:
        target = buffers.get(node.name) if node.op == "placeholder" else None
        if target in mutated:
            value = program.state_dict.get(target, program.constants.get(target))
            if isinstance(value, torch.Tensor) and not _is_zero(value):
                node.meta["et_init_buffer"] = True


def _is_zero(value: torch.Tensor) -> bool:
    """Whether all elements are zero, and none is -0.0."""
    if value.is_floating_point() and value.itemsize > 1 and bool(value.signbit().any()):
        return False
    return not bool(value.any())
