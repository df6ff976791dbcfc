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
        fake_mode = detect_fake_mode([value for value in call.node.meta["val"]])
        plan = stage.add_buffer(_free_name(stage, index), state.plan, fake_mode)
        with stage.graph.inserting_before(node):
            inputs = _distinct(stage, [stage.copies[item] for item in call.inputs])
            replacement = stage.graph.call_function(
                execute_plan, (inputs, plan, list(state.strings))
            )
        replacement.meta = dict(node.meta)
        node.replace_all_uses_with(replacement)
        stage.remove(node)
        source = stage.copies[call.source]
        if not source.users:
            stage.remove(source)
    return stage.finish()


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
