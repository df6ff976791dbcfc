"""Keeps outputs that nobody uses as outputs of the delegate.

A delegate runs a whole engine, and an engine writes all of its outputs; ExecuTorch gives a delegate only those
that something outside of it uses. So the program gives out the missing ones too while it is partitioned.
"""

import operator
from collections.abc import Sequence

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind, OutputSpec, TensorArgument
from torch.fx import Node

from trt_export.passes.engine_op import is_execute_plan


def hold_outputs(program: ExportedProgram) -> int:
    """Give every output of every engine call one node that is used, in their order; edits in place.

    Returns:
        How many outputs were added behind those of the program, for `release_outputs`.
    """
    graph, signature = program.graph, program.graph_signature
    unused = [
        item
        for call in [node for node in graph.nodes if is_execute_plan(node)]
        for item in _outputs(call)
        if not item.users
    ]
    (results,) = graph.output_node().args
    assert isinstance(results, Sequence)
    graph.output_node().args = ((*results, *unused),)
    signature.output_specs = [
        *signature.output_specs,
        *(OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(item.name), None) for item in unused),
    ]
    program.graph_module.recompile()
    return len(unused)


def release_outputs(program: ExportedProgram, held: int) -> None:
    """Remove the outputs that `hold_outputs` added; the delegate keeps them."""
    if held:
        output = program.graph.output_node()
        (results,) = output.args
        assert isinstance(results, Sequence)
        output.args = (tuple(results[:-held]),)
        program.graph_signature.output_specs = program.graph_signature.output_specs[:-held]
        program.graph_module.recompile()


def _outputs(call: Node) -> list[Node]:
    """One node for each output: the call itself if it has one, else getitems in order right behind it.

    The results of a delegate have the order of their nodes.
    """
    values = call.meta["val"]
    if isinstance(values, torch.Tensor):
        return [call]
    outputs = []
    for index, value in reversed(list(enumerate(values))):
        items = [user for user in call.users if user.args[1] == index]
        if items:
            item, *others = items
            for other in others:
                other.replace_all_uses_with(item)
                call.graph.erase_node(other)
        else:
            with call.graph.inserting_after(call):
                item = call.graph.call_function(operator.getitem, (call, index))
            item.meta["val"] = value
        call.append(item)
        outputs.append(item)
    return outputs
