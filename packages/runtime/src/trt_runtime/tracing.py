"""Lets torch.export trace an engine: the class and the operator as they look without data."""

from __future__ import annotations

from typing import Any

import torch
from torch._higher_order_ops.effects import _register_effectful_op
from torch._library.fake_class_registry import FakeScriptObject, has_fake_class, register_fake_class

from . import _native
from .checking import ShapeChecker
from .record import info_from_fields

_CLASS = "trt_runtime::Engine"
_OPERATOR = "trt_runtime::execute_engine"


class FakeEngine:
    """What stands for an engine in a traced program: its record."""

    def __init__(self, slots: list[str]) -> None:
        # Strict export looks for an attribute per name that `__obj_flatten__` gives.
        self.record = slots
        self.checker = ShapeChecker(info_from_fields(_native.parse_record(slots)))

    @classmethod
    def __obj_unflatten__(cls, flattened: tuple[tuple[str, Any], ...]) -> FakeEngine:
        """Make one of what the engine's ``__obj_flatten__`` returned."""
        return cls(dict(flattened)["record"])

    def serialize(self) -> list[str]:
        """As the engine's: torch looks for each of its methods here."""
        return self.record


def execute_engine(inputs: list[torch.Tensor], engine: Any) -> list[torch.Tensor]:
    """Return empty outputs of the dtypes and shapes that ``engine`` would return for ``inputs``.

    Raises:
        InputError: the inputs are not what the record says.

    """
    if isinstance(engine, FakeScriptObject):
        checker = engine.wrapped_obj.checker
    else:
        checker = ShapeChecker(info_from_fields(_native.engine_fields(engine)))
    return [
        inputs[0].new_empty(shape, dtype=binding.torch_dtype)
        for binding, shape in checker.outputs(inputs)
    ]


def restore_engines(program: torch.export.ExportedProgram) -> torch.export.ExportedProgram:
    """Put the engines back into a program that ``torch.export.export(strict=True)`` made.

    Strict export of torch 2.13 leaves the fakes that it traced with in ``program.constants``, and then
    ``program.module()`` and everything built on it fail ("FakeScriptObject should only exist during
    tracing"). A program of non-strict export, which is the default, needs none of this.

    Args:
        program: changed in place; one without fakes stays as it is.

    Returns:
        ``program``.

    """
    for name, constant in program.constants.items():
        if isinstance(constant, FakeScriptObject) and isinstance(constant.wrapped_obj, FakeEngine):
            program.constants[name] = constant.real_obj
    return program


def register() -> None:
    """Tell torch of both; once per process, however often the package is imported."""
    if has_fake_class(f"__torch__.torch.classes.{_CLASS.replace('::', '.')}"):
        return
    register_fake_class(_CLASS, FakeEngine)  # type: ignore[arg-type]  # its protocol is outdated
    torch.library.register_fake(_OPERATOR, execute_engine)
    # An operator that takes an object counts as effectful: decompositions would wrap its node in
    # `with_effects`, and passes that look for it would find nothing. An engine has no side effect.
    _register_effectful_op(_OPERATOR, None)
