"""Reading an engine object: its record and its plan."""

from dataclasses import dataclass

import torch

from trt_export.engines.record import (
    EngineRecord,
    check_plan,
    decode_plan,
    parse_record,
    without_plan,
)
from trt_export.errors import EngineRecordError
from trt_export.plan import PlanHeader


@dataclass(frozen=True)
class EngineState:
    """An engine in parts.

    `plan` is a uint8 tensor of shape [size] on the CPU. `strings` is the record as the engine gave it, with
    an empty engine slot; `header` is what the plan's own header tells.
    """

    record: EngineRecord
    strings: tuple[str, ...]
    plan: torch.Tensor
    header: PlanHeader


def read_engine(engine: torch.ScriptObject) -> EngineState:
    """Read an engine through `__getstate__`, the one way that every runtime release has.

    It serializes the engine and decodes base64, so it costs several times the plan's size: read an engine
    once.

    Raises:
        EngineRecordError: a record that this version does not read.
        TruncatedPlanError, CorruptPlanError: a plan that is not the one its record describes.
    """
    state = engine.__getstate__()
    if isinstance(state, tuple):  # torch adds the class name.
        state = state[0]
    if not isinstance(state, list):
        raise EngineRecordError(
            f"an engine's state must be a list of strings, found {type(state).__name__}"
        )
    record = parse_record(state)
    data = decode_plan(state)
    strings = without_plan(state)
    del state  # A third more than the plan itself.
    header = check_plan(record, data)
    return EngineState(record, strings, torch.frombuffer(data, dtype=torch.uint8), header)
