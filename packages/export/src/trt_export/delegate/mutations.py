"""What ExecuTorch does not write of a method: the names of its inputs, and which outputs are mutated inputs.

It puts the new value of an input that the model writes into before the model's own outputs.
"""

from collections.abc import Mapping

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

# These are written back inside the program, or gone.
_NO_OUTPUTS = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION, OutputKind.TOKEN)


def mutated_inputs(programs: Mapping[str, ExportedProgram]) -> dict[str, list[tuple[int, int]]]:
    """Return pairs of output and input, by the methods that have any."""
    found = {method: _mutated_inputs(program) for method, program in programs.items()}
    return {method: pairs for method, pairs in found.items() if pairs}


def input_names(programs: Mapping[str, ExportedProgram]) -> dict[str, list[str]]:
    """Return the names of the inputs, in order, by method."""
    return {method: _user_inputs(program) for method, program in programs.items()}


def _user_inputs(program: ExportedProgram) -> list[str]:
    return [
        getattr(spec.arg, "name", "")
        for spec in program.graph_signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]


def _mutated_inputs(program: ExportedProgram) -> list[tuple[int, int]]:
    signature = program.graph_signature
    inputs = _user_inputs(program)
    outputs = [spec for spec in signature.output_specs if spec.kind not in _NO_OUTPUTS]
    return [
        (index, inputs.index(spec.target))
        for index, spec in enumerate(outputs)
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    ]
