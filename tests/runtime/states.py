"""States of engines, as code of one module or another gets them."""

from __future__ import annotations

from typing import Any

import torch

from trt_runtime import Engine, _native

CLASS = "__torch__.torch.classes.trt_runtime.Engine"


def address(engine: Engine) -> int:
    return _native.engine_plan(engine.script_object).tensor.data_ptr()


def set_state(state: object) -> Engine:
    made = torch.ScriptObject.__new__(torch.ScriptObject)
    made.__setstate__((state, CLASS))
    return Engine(made)


def called_from(module: str, function: str, argument: object) -> Any:
    """What a call of one line from code of a module of that name gives."""
    names: dict[str, Any] = {"__name__": module, "torch": torch}
    exec(f"def call(argument): return {function}", names)
    return names["call"](argument)


def saved(engine: Engine) -> bytes:
    """An object's file, as torch.export.save makes it."""
    return called_from("torch.x", "torch._C._pickle_save(argument)", engine.script_object)


def tensor_state(engine: Engine) -> tuple[int, list[str], torch.Tensor]:
    return called_from("torch.somewhere", "argument.__getstate__()", engine.script_object)[0]
