"""Says which nodes go to a delegate: one engine call each, with its outputs."""

import json
import operator
from collections.abc import Mapping, Sequence

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.export import ExportedProgram

from trt_export.delegate.input_sizes import Size
from trt_export.formats import (
    BACKENDS,
    DATA_FILE,
    INPUT_NAMES,
    INPUT_SIZES,
    MUTATED_INPUTS,
    NAMED_DATA,
)
from trt_export.passes.engine_op import is_execute_plan


class EnginePartitioner(Partitioner):  # type: ignore[misc]
    """One delegate for each engine call.

    Tagged are the call and the getitems that take its outputs, nothing else: a weight or a state that an engine
    reads stays above the delegate. ExecuTorch's own `tag_constant_data` would take in a buffer that the program
    mutates with an engine's output, and freeze it.
    """

    def __init__(
        self,
        data_file: str | None = None,
        mutated_inputs: Mapping[str, Sequence[tuple[int, int]]] | None = None,
        input_names: Mapping[str, Sequence[str]] | None = None,
        input_sizes: Mapping[str, Sequence[Sequence[Size] | None]] | None = None,
    ) -> None:
        """Say what the delegates' compile specs are.

        Args:
            data_file: the name (without its ending) of the `.ptd` for plans in named data; None: the `.pte`.
            mutated_inputs: pairs of output and input by method, for all methods of the file: a reader finds them in
                the first delegate of any method, because a method may have none.
            input_names: names of the inputs by method, likewise.
            input_sizes: the sizes that inputs may have by method, likewise.
        """
        super().__init__()
        self._data_file = [] if data_file is None else [CompileSpec(DATA_FILE, data_file.encode())]
        self._of_methods = [
            CompileSpec(key, json.dumps(value).encode())
            for key, value in (
                (MUTATED_INPUTS, mutated_inputs),
                (INPUT_NAMES, input_names),
                (INPUT_SIZES, input_sizes),
            )
            if value
        ]

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes; the graph is not changed."""
        specs = {}
        calls = [node for node in exported_program.graph.nodes if is_execute_plan(node)]
        for index, call in enumerate(calls):
            tag = f"engine_{index}"
            outputs = [user for user in call.users if user.target is operator.getitem]
            for node in (call, *outputs):
                node.meta["delegation_tag"] = tag
            backend = call.args[2]
            specs[tag] = DelegationSpec(
                backend,
                [
                    *(self._data_file if backend == BACKENDS[NAMED_DATA] else []),
                    *([] if index else self._of_methods),
                ],
            )
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=specs)
