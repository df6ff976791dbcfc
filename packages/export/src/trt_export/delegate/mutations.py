"""Which outputs of a `.pte` are inputs that the model writes into.

ExecuTorch puts the new value of such an input before the model's own outputs, and says so nowhere in the file.
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


def _mutated_inputs(program: ExportedProgram) -> list[tuple[int, int]]:
    signature = program.graph_signature
    inputs = [
        getattr(spec.arg, "name", None)
        for spec in signature.input_specs
        if spec.kind is InputKind.USER_INPUT
    ]
    outputs = [spec for spec in signature.output_specs if spec.kind not in _NO_OUTPUTS]
    return [
        (index, inputs.index(spec.target))
        for index, spec in enumerate(outputs)
        if spec.kind is OutputKind.USER_INPUT_MUTATION
    ]
