"""Keeps outputs that nobody uses as outputs of the delegate.

A delegate runs a whole engine, and an engine writes all of its outputs; ExecuTorch gives a delegate only those
that something outside of it uses. Between the last rewrite of the graph and partitioning, an op that does
nothing uses each missing one; afterwards it goes.
"""

import operator
from collections.abc import Sequence

import torch
from executorch.exir.dialects._ops import ops as edge_ops
from torch.fx import GraphModule, Node
from torch.fx.node import has_side_effect

from trt_export.passes.engine_op import is_execute_plan

OP = "trt_export::hold"

torch.library.define(OP, "(Tensor value) -> ()")
# ExecuTorch's verifier takes edge ops only; torch removes unused calls of an op without side effects.
_hold = has_side_effect(edge_ops.edge.trt_export.hold.default)


torch.library.register_fake(OP, lambda value: None)


def hold_outputs(module: GraphModule) -> None:
    """Give every output of every engine call one node that is used, in their order; edits in place."""
    graph = module.graph
    for call in [node for node in graph.nodes if is_execute_plan(node)]:
        values = call.meta["val"]
        outputs = _getitems(call, values) if isinstance(values, Sequence) else [call]
        for item in outputs:
            if not item.users:
                with graph.inserting_before(graph.output_node()):
                    graph.call_function(_hold, (item,)).meta["val"] = None
    module.recompile()


def release_outputs(module: GraphModule) -> None:
    """Remove what `hold_outputs` added; the delegate keeps its outputs."""
    for node in [node for node in module.graph.nodes if node.target is _hold]:
        module.graph.erase_node(node)
    module.recompile()


def _getitems(call: Node, values: Sequence[torch.Tensor]) -> list[Node]:
    """One getitem for each output, in order right behind the call: so are the results of the delegate."""
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
