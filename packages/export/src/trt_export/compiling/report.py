"""What `compile` tells besides the program that it returns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class EngineVerification:
    """How an engine was compared with PyTorch."""

    method: str
    """What was compared: the engine itself, as the installed trt-runtime runs it, or only its ONNX model."""
    compared: tuple[str, ...] = ()
    """The samples on which it computes the same as PyTorch, by name; the first is `"example inputs"`."""
    rounding: tuple[str, ...] = ()
    """Those of them on which results differ that rounding explains: an index among nearly equal numbers, say."""
    not_compared: Mapping[str, str] = field(default_factory=dict)
    """What was not compared, with the reason: a sample, or `"anything"`."""
    notes: tuple[str, ...] = ()
    """What else a user should know."""
    doubt: str | None = None
    """Why its numbers may be other ones on another machine, though they are right here."""

    @property
    def verified(self) -> bool:
        """Whether it was compared, at least on the example inputs, and nothing speaks against its numbers."""
        return bool(self.compared) and self.doubt is None

    def __bool__(self) -> bool:
        return self.verified


NOT_VERIFIED = EngineVerification("nothing", (), (), {"anything": "verification did not run"})


@dataclass(frozen=True)
class EngineSummary:
    """An engine that was made: its name, device, size of the plan in bytes, and the operators that are in it."""

    name: str
    device: str
    plan_size: int
    operators: Mapping[str, int]
    """How often each operator (`"aten.linear.default"`) occurs."""
    verification: EngineVerification = NOT_VERIFIED


@dataclass(frozen=True)
class LeftNode:
    """A node that stays in PyTorch, its operator (`"aten.nonzero.default"`) and the reason."""

    name: str
    operator: str
    reason: str


@dataclass(frozen=True)
class VerificationSummary:
    """The samples that engines were compared with PyTorch on, and the time that it took."""

    seconds: float = 0.0
    """All time of the phase `verify`: samples, and the search for nodes that compute other numbers."""
    allowed_seconds: float = 0.0
    """The time that samples besides the example inputs were allowed to take."""
    samples: tuple[str, ...] = ()
    """The samples that were run."""
    skipped: Mapping[str, str] = field(default_factory=dict)
    """Those that were not, with the reason: PyTorch refuses the values, or there was no time left."""


@dataclass(frozen=True)
class CompileReport:
    """What became of a program."""

    builder: str
    engines: tuple[EngineSummary, ...]
    left_in_pytorch: tuple[LeftNode, ...]
    verified: bool
    """Whether every engine was compared with PyTorch, at least on the example inputs; `engines` say on what else."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Time by phase; the keys are those of `Phase`."""
    verification: VerificationSummary = VerificationSummary()
    differences: Mapping[str, str] = field(default_factory=dict)
    """What operators in the engines compute differently on special values, said once per operator: docs/numerics.md.

    Empty for builders whose plans ONNX Runtime does not run: those were not measured.
    """


Phase = Literal["decompose", "partition", "onnx", "verify", "check", "build", "splice"]

ProgressCallback = Callable[[Phase, int, int], None]
"""Called with the phase, how many steps of it are done, and how many there are as far as is known."""
