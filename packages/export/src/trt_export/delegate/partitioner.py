"""Says which nodes go to a TensorRT delegate: one engine call each, with its outputs and its plan."""

import operator

from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.delegate.backend import TensorRTBackend
from trt_export.passes.engine_op import is_execute_plan


class EnginePartitioner(Partitioner):  # type: ignore[misc]
    """One delegate for each engine call.

    Tagged are the call, the getitems that take its outputs, and the buffer with its plan, nothing else: a
    weight or a state that an engine reads stays above the delegate. ExecuTorch's own `tag_constant_data`
    would take in a buffer that the program mutates with an engine's output, and freeze it.
    """

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tag the nodes; the graph is not changed."""
        specs = {}
        calls = [node for node in exported_program.graph.nodes if is_execute_plan(node)]
        for index, call in enumerate(calls):
            tag = f"engine_{index}"
            plan = call.args[1]
            assert isinstance(plan, Node)
            outputs = [user for user in call.users if user.target is operator.getitem]
            for node in (plan, call, *outputs):
                node.meta["delegation_tag"] = tag
            specs[tag] = DelegationSpec(TensorRTBackend.__name__, [])
        return PartitionResult(tagged_exported_program=exported_program, partition_tags=specs)
