"""Makes the payload of a delegate out of the subgraph that the partitioner gave it."""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.delegate.blob import BlobAlias, BlobBinding, BlobMetadata, build_blob
from trt_export.engines.metadata import Binding
from trt_export.engines.record import EngineRecord
from trt_export.errors import LoweringError
from trt_export.passes.engine_op import is_execute_plan, record_of


class TensorRTBackend(BackendDetails):  # type: ignore[misc]
    """The backend of that name; ExecuTorch finds it by its class name, which is the backend id in the file."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: Sequence[Any]) -> PreprocessResult:
        """The inline blob for a subgraph with one engine call.

        Raises:
            LoweringError: the subgraph is not one engine call whose arguments and results are exactly
                the engine's bindings.
        """
        calls = [node for node in edge_program.graph.nodes if is_execute_plan(node)]
        if len(calls) != 1:
            raise LoweringError(f"a delegate runs one engine, this one was given {len(calls)}")
        call = calls[0]
        inputs, plan, strings = call.args
        record = record_of(tuple(strings))
        metadata = BlobMetadata(
            io_bindings=(
                *_inputs(edge_program, list(inputs), plan, record),
                *_outputs(edge_program, call, record),
            ),
            aliased_io=tuple(BlobAlias(a.output, a.input, a.kind) for a in record.aliased_io),
            hardware_compatible=record.hardware_compatible,
            device_id=record.device_index,
            serialized_metadata=record.metadata,
            target_platform=record.target_platform,
        )
        return PreprocessResult(build_blob(metadata, _plan(edge_program, plan).numpy().data))


def _inputs(
    program: ExportedProgram, inputs: Sequence[Node], plan: Node, record: EngineRecord
) -> list[BlobBinding]:
    """The input bindings in the order of the delegate's arguments, matched by node."""
    arguments = [
        node for node in program.graph.nodes if node.op == "placeholder" and node is not plan
    ]
    if len(set(inputs)) != len(inputs) or set(arguments) != set(inputs):
        raise LoweringError(
            f"the delegate of engine {record.name!r} has the arguments {_names(arguments)},"
            f" its engine the inputs {_names(inputs)}"
        )
    return [_binding(record.inputs[inputs.index(node)], is_input=True) for node in arguments]


def _outputs(program: ExportedProgram, call: Node, record: EngineRecord) -> list[BlobBinding]:
    """The output bindings in the order of the delegate's results, matched by index."""
    (results,) = program.graph.output_node().args
    assert isinstance(results, Sequence)
    indices = [_output_index(node, call) for node in results]
    if sorted(indices) != list(range(len(record.outputs))):
        raise LoweringError(
            f"the delegate of engine {record.name!r} gives outputs {indices} of its call,"
            f" the engine has {len(record.outputs)}: {[binding.name for binding in record.outputs]}"
        )
    return [_binding(record.outputs[index], is_input=False) for index in indices]


def _output_index(node: object, call: Node) -> int:
    """Which output of the call a result is; -1 for none of them."""
    if node is call:
        return 0
    if isinstance(node, Node) and node.target is operator.getitem and node.args[0] is call:
        return int(node.args[1])  # type: ignore[arg-type]
    return -1


def _binding(binding: Binding, *, is_input: bool) -> BlobBinding:
    shape = tuple(dim if isinstance(dim, int) else -1 for dim in binding.shape)
    return BlobBinding(binding.name, binding.dtype, shape, is_input)


def _plan(program: ExportedProgram, node: Node) -> torch.Tensor:
    target = program.graph_signature.inputs_to_buffers.get(node.name)
    if target is None:
        raise LoweringError(f"the plan {node.name!r} is no buffer of the delegate's program")
    value = program.state_dict.get(target, program.constants.get(target))
    assert isinstance(value, torch.Tensor)
    return value


def _names(nodes: Sequence[Node]) -> list[str]:
    return [node.name for node in nodes]
