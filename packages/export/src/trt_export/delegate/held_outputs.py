"""Keeps outputs that nobody uses as outputs of the delegate.

A delegate runs a whole engine, and an engine writes all of its outputs; ExecuTorch gives a delegate only those
that something outside of it uses. Between the last rewrite of the graph and partitioning, an op that does
nothing uses each missing one; afterwards it goes.
"""

import operator

import torch
from executorch.exir.dialects._ops import ops as edge_ops
from torch.fx import GraphModule
from torch.fx.node import has_side_effect

from trt_export.passes.engine_op import is_execute_plan

OP = "trt_export::hold"

torch.library.define(OP, "(Tensor value) -> ()")
# ExecuTorch's verifier takes edge ops only; torch removes unused calls of an op without side effects.
_hold = has_side_effect(edge_ops.edge.trt_export.hold.default)


@torch.library.register_fake(OP)
def _hold_nothing(value: torch.Tensor) -> None:
    return None


def hold_outputs(module: GraphModule) -> None:
    """Give every engine call one getitem for each output, in their order and in use; edits in place."""
    graph = module.graph
    for call in [node for node in graph.nodes if is_execute_plan(node)]:
        for index, value in reversed(list(enumerate(call.meta["val"]))):
            items = [user for user in call.users if user.args[1] == index]
            if items:
                item, *others = items
                for other in others:
                    other.replace_all_uses_with(item)
                    graph.erase_node(other)
            else:
                with graph.inserting_after(call):
                    item = graph.call_function(operator.getitem, (call, index))
                item.meta["val"] = value
            call.append(item)  # Moves it: a delegate's results have the order of their nodes.
            if not item.users:
                with graph.inserting_before(graph.output_node()):
                    graph.call_function(_hold, (item,)).meta["val"] = None
    module.recompile()


def release_outputs(module: GraphModule) -> None:
    """Remove what `hold_outputs` added; the delegate keeps its outputs."""
    for node in [node for node in module.graph.nodes if node.target is _hold]:
        module.graph.erase_node(node)
    module.recompile()
