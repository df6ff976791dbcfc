"""Lets torch.export trace an engine: what the operator returns where tensors have no data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import _native
from .checking import ShapeChecker
from .errors import InputError
from .record import info_from_fields

_OPERATOR = "trt_runtime::execute_engine"


def execute_engine(
    inputs: list[torch.Tensor], engine: torch.ScriptObject | None
) -> list[torch.Tensor]:
    """Return empty outputs of the dtypes and shapes that ``engine`` would return for ``inputs``.

    Raises:
        InputError: the inputs are not what the record says, or there is no engine.

    """
    if engine is None:
        raise InputError(
            f"{_OPERATOR}: expected an engine, found None; pass the script_object of a trt_runtime.Engine"
        )
    checker = ShapeChecker(info_from_fields(_native.engine_fields(engine)))
    return [
        inputs[0].new_empty(shape, dtype=binding.torch_dtype)
        for binding, shape in checker.outputs(inputs)
    ]


def _trace(
    mode: FakeTensorMode,
    function: Any,
    types: Sequence[type],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
) -> Any:
    """Trace the operator past the cache of ``mode``.

    That cache has the arguments of every call in its keys, outlives the program, and would keep the
    engine with it.
    """
    if mode.propagate_real_tensors:  # runs the engine on real tensors as well; only the mode can
        return mode.__torch_dispatch__(function, types, args, kwargs)
    with mode:
        return execute_engine(*args, **kwargs)


def restore_engines(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Return ``program`` as it is.

    With trt-runtime 0.1 strict export left fakes in the place of engines, and this put the engines back.
    Engines are traced as themselves now, so there are none: the name is here for code of that time.
    """
    return program


def register() -> None:
    """Tell torch; once per process, however often the package is imported."""
    if torch._C._dispatch_has_kernel_for_dispatch_key(_OPERATOR, "Meta"):
        return
    torch.library.register_torch_dispatch(_OPERATOR, FakeTensorMode, _trace)
    torch.library.register_fake(_OPERATOR, execute_engine)  # for tensors on the meta device
