"""What `compile` tells besides the program that it returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class EngineSummary:
    """An engine that was made: its name, device, size of the plan in bytes, and the operators that are in it."""

    name: str
    device: str
    plan_size: int
    operators: Mapping[str, int]
    """How often each operator (`"aten.linear.default"`) occurs."""


@dataclass(frozen=True)
class LeftNode:
    """A node that stays in PyTorch, its operator (`"aten.nonzero.default"`) and the reason."""

    name: str
    operator: str
    reason: str


@dataclass(frozen=True)
class CompileReport:
    """What became of a program."""

    builder: str
    engines: tuple[EngineSummary, ...]
    left_in_pytorch: tuple[LeftNode, ...]
    verified: bool
    """Whether the ONNX models were compared with PyTorch: not possible without example inputs that run here."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time by phase; the keys are those of `Phase`."""


Phase = Literal["decompose", "partition", "onnx", "verify", "check", "build", "splice"]

ProgressCallback = Callable[[Phase, int, int], None]
"""Called with the phase, how many steps of it are done, and how many there are as far as is known."""
