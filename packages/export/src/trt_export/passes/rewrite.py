"""Replaces engine calls by calls of the op that ExecuTorch can lower."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.engines.find import EngineCall
from trt_export.engines.record import EngineRecord
from trt_export.passes.engine_op import execute_plan
from trt_export.passes.plan_store import StoredPlan
from trt_export.passes.stage import Stage


@dataclass(frozen=True)
class LoweredCall:
    """A call and what goes into its place.

    `strings` is the record as the op carries it, `backend` the id of the delegate that will run the plan.
    """

    call: EngineCall
    record: EngineRecord
    strings: tuple[str, ...]
    plan: StoredPlan
    backend: str


def rewrite(program: ExportedProgram, calls: Sequence[LoweredCall]) -> ExportedProgram:
    """A program with every engine call replaced; the source is not changed.

    The new program has the keys of the plans in its graph; whoever lowers it holds the plans. Calls that torch has made
    effectful become plain ones; tokens that nothing needs then are gone. Memory in another order of dimensions
    (`channels_last`) becomes contiguous, which is what engines read; values and sizes stay the same.

    Args:
        program: the source.
        calls: its engine calls.

    Raises:
        LoweringError: the program reads memory by its strides, and that memory becomes contiguous.
    """
    stage = Stage(program)
    for lowered in calls:
        call = lowered.call
        node = stage.copies[call.node]
        with stage.graph.inserting_before(node):
            inputs = _distinct(stage, [stage.copies[item] for item in call.inputs])
            replacement = stage.graph.call_function(
                execute_plan(len(lowered.record.outputs)),
                (inputs, lowered.plan.key, lowered.backend, list(lowered.strings)),
            )
        replacement.meta = dict(node.meta)
        if call.is_effectful:
            _lead_token_past(stage, node)
        _take_over(stage, node, replacement, call.outputs)
        source = stage.copies[call.source]
        if not source.users:
            stage.remove(source)
    stage.make_contiguous()
    stage.drop_idle_tokens()
    return stage.finish()


def _lead_token_past(stage: Stage, node: Node) -> None:
    """Make the users of `with_effects(token, ...) -> (token, results)` take the token, and the node for its results."""
    token = node.args[0]
    assert isinstance(token, Node)
    for user in list(node.users):
        stage.replace(user, token if user.args[1] == 0 else node)


def _take_over(stage: Stage, node: Node, replacement: Node, values: Sequence[torch.Tensor]) -> None:
    """Put the new call in the place of the old one, which gives a list even of one output."""
    replacement.meta["val"] = values[0] if len(values) == 1 else tuple(values)
    if len(values) == 1:
        items = list(node.users)
        for item in items:
            stage.replace(item, replacement)
        if items:
            replacement.name = items[0].name  # By which the signature knows it, if it is an output.
    stage.replace(node, replacement)


def _distinct(stage: Stage, inputs: Sequence[Node]) -> list[Node]:
    """A copy for each input that is there already: a delegate gets each of its arguments once."""
    result: list[Node] = []
    for item in inputs:
        if item in result:
            clone = stage.graph.call_function(torch.ops.aten.clone.default, (item,))
            clone.meta["val"] = item.meta["val"].clone()
            item = clone
        result.append(item)
    return result
