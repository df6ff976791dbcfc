"""How Python copies and pickles engine objects, and who is given the plan as a tensor: no plan is encoded.

What is pickled names functions of this module: they keep their names and what they take.
"""

from __future__ import annotations

import copyreg
import pickle
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _native
from .buffers import hold

_CLASS = "__torch__.torch.classes.trt_runtime.Engine"


def takes_tensors() -> bool:
    """Whether the Python code that asks for an engine's state right now hands it to torch or copies it.

    Both only bring it back to `__setstate__`. All others may have been written for the state of earlier
    releases, a list of strings, and get that: trt-export 0.1.0 does so. If torch's code should move, this
    answers False for it, and what it writes is larger but as correct.
    """
    caller = sys._getframe().f_back  # native code has no frame
    module = "" if caller is None else str(caller.f_globals.get("__name__"))
    return module == "copy" or module.partition(".")[0] == "torch"


def restore_engine(slots: Sequence[str], plan: _native.Plan) -> torch.ScriptObject:
    """Make an engine object of what `reduce_engine` gave."""
    return _native.restore_engine(slots, plan)


def restore_plan(data: Any) -> _native.Plan:
    """Make a plan of what `reduce_plan` gave: bytes, another buffer, or a tensor."""
    return _native.plan_from_tensor(data) if isinstance(data, torch.Tensor) else hold(data)


def reduce_plan(plan: _native.Plan, protocol: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle a plan's bytes, without a copy of ours where the protocol has a way."""
    if protocol >= 5:
        return restore_plan, (pickle.PickleBuffer(plan),)  # may go out of band
    if protocol >= 3:
        _native.count_plan_copy()
        return restore_plan, (bytes(memoryview(plan)),)
    # That of torch.save, which has a way of its own for tensors. It would make text of bytes.
    return restore_plan, (plan.tensor,)


def reduce_engine(engine: torch.ScriptObject) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Pickle an engine object as its record and its plan."""
    slots = [slot or "" for slot in engine.serialize_metadata_only()]  # type: ignore[attr-defined]
    return restore_engine, (slots, _native.engine_plan(engine))


def is_engine(value: Any) -> bool:
    """Whether a value is an engine object, among other TorchBind objects and what else a program holds."""
    return isinstance(value, torch.ScriptObject) and value._type().qualified_name() == _CLASS


class _Reducer:
    """Pickles engines; any other object of torch's as if we were not here."""

    def __init__(self, before: Callable[[Any], Any] | None) -> None:
        """``before`` is the reducer that was there."""
        self.before = before

    def __call__(self, script_object: Any) -> Any:
        if is_engine(script_object):
            return reduce_engine(script_object)
        return self.before(script_object) if self.before else script_object.__reduce_ex__(2)


def register() -> None:
    """Tell the native library and Python's pickle; however often this is imported, the last counts."""
    _native.register_takes_tensors(takes_tensors)
    before: Any = copyreg.dispatch_table.get(torch.ScriptObject)
    if type(before).__module__ == __name__:
        before = before.before
    copyreg.pickle(torch.ScriptObject, _Reducer(before))
