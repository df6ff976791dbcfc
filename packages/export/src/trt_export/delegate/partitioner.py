"""Says which nodes go to a delegate: one engine call each, with its outputs."""

import operator

from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.export import ExportedProgram

from trt_export.formats import BACKENDS, DATA_FILE, NAMED_DATA
from trt_export.passes.engine_op import is_execute_plan


class EnginePartitioner(Partitioner):  # type: ignore[misc]
    """One delegate for each engine call.

    Tagged are the call and the getitems that take its outputs, nothing else: a weight or a state that an engine
    reads stays above the delegate. ExecuTorch's own `tag_constant_data` would take in a buffer that the program
    mutates with an engine's output, and freeze it.
    """

    def __init__(self, data_file: str | None = None) -> None:
        """`data_file` is the name (without its ending) of the `.ptd` for plans in named data; None: the `.pte`."""
        super().__init__()
        self._specs = [] if data_file is None else [CompileSpec(DATA_FILE, data_file.encode())]

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
                backend, self._specs if backend == BACKENDS[NAMED_DATA] else []
            )
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=specs)
