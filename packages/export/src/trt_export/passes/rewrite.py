"""Replaces engine calls by calls of the op that ExecuTorch can lower."""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch._guards import detect_fake_mode
from torch.export import ExportedProgram
from torch.fx import Node

from trt_export.engines.find import EngineCall
from trt_export.engines.read import EngineState
from trt_export.passes.engine_op import execute_plan
from trt_export.passes.stage import Stage


def rewrite(
    program: ExportedProgram, calls: Iterable[EngineCall], states: Mapping[int, EngineState]
) -> ExportedProgram:
    """A program with every engine call replaced; the source is not changed.

    Each call gets its plan as a buffer of its own, over the same memory if calls share an engine: a delegate
    owns its buffers.

    Args:
        program: the source.
        calls: its engine calls.
        states: the engines read, by `EngineCall.identity`.
    """
    stage = Stage(program)
    for index, call in enumerate(calls):
        state = states[call.identity]
        node = stage.copies[call.node]
        fake_mode = detect_fake_mode(list(call.node.meta["val"]))
        plan = stage.add_buffer(_free_name(stage, index), state.plan, fake_mode)
        with stage.graph.inserting_before(node):
            inputs = _distinct(stage, [stage.copies[item] for item in call.inputs])
            replacement = stage.graph.call_function(
                execute_plan(len(state.record.outputs)), (inputs, plan, list(state.strings))
            )
        _take_over(stage, node, replacement)
        source = stage.copies[call.source]
        if not source.users:
            stage.remove(source)
    return stage.finish()


def _take_over(stage: Stage, node: Node, replacement: Node) -> None:
    """Put the new call in the place of the old one, which gives a list even of one output."""
    values = node.meta["val"]
    replacement.meta = {**node.meta, "val": values[0] if len(values) == 1 else tuple(values)}
    if len(values) == 1:
        items = list(node.users)
        for item in items:
            stage.replace(item, replacement)
        if items:
            replacement.name = items[0].name  # By which the signature knows it, if it is an output.
    stage.replace(node, replacement)


def _free_name(stage: Stage, index: int) -> str:
    name = f"trt_plan_{index}"
    while not stage.is_free(name):
        name += "_"
    return name


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
