"""TensorRT (or ONNX Runtime) engines as PyTorch objects: hold, save, trace and run them."""

from .errors import (
    ExecutionError,
    ExecutorUnavailableError,
    InputError,
    LibraryMismatchError,
    PlanError,
    ProgramError,
    RecordError,
    TrtRuntimeError,
)
from .loading import load as _load

_native = _load()

# These need the library.
from . import executors as _executors  # noqa: E402
from . import tracing as _tracing  # noqa: E402
from .delegate.program import Program, load  # noqa: E402
from .delegate.registration import register_delegate  # noqa: E402
from .engine import Engine  # noqa: E402
from .info import AliasedIO, Binding, EngineInfo, PlanInfo  # noqa: E402
from .tracing import restore_engines  # noqa: E402

_executors.register()
_tracing.register()

__version__: str = _native.build_info()["version"]

__all__ = [
    "AliasedIO",
    "Binding",
    "Engine",
    "EngineInfo",
    "ExecutionError",
    "ExecutorUnavailableError",
    "InputError",
    "LibraryMismatchError",
    "PlanError",
    "PlanInfo",
    "Program",
    "ProgramError",
    "RecordError",
    "TrtRuntimeError",
    "__version__",
    "capabilities",
    "load",
    "register_delegate",
    "restore_engines",
    "stats",
]


def capabilities() -> frozenset[str]:
    """Return what the engines of this build can do beyond the baseline, by name.

    - ``tracing-mode-real``: an engine is traced as itself, nothing of it is serialized or copied.
    - ``metadata-only``: ``serialize_metadata_only()`` of an engine object gives its record without the
      plan, at a cost that does not depend on the size of the plan.
    - ``engine-tensor``: ``serialized_engine_tensor()`` gives the plan as a tensor, without a copy.
    """
    return frozenset({"tracing-mode-real", "metadata-only", "engine-tensor"})


def stats() -> dict[str, int]:
    """Return what this process has done to engines since it started, exact, counted natively.

    - ``serializations``: full records with a plan that were produced (`Engine.serialize`, pickling,
      deepcopy).
    - ``deserializations``: engines made of such a record (unpickling, deepcopy, `Engine.deserialize`).
    - ``base64_encodes``, ``base64_decodes``: plans that went through base64.
    - ``plan_copies``: other full copies of a plan's bytes: a buffer that could still change given to
      `Engine.from_plan`, a model of whose large weights ONNX Runtime needs more than half as a copy.
    - ``executor_loads``: plans that were deserialized to run: one per engine that has run, one for all
      delegates of the same plan.
    - ``delegate_bindings``: sets of arguments that delegates were bound to; calls with the same memory and
      sizes need no new one.
    """
    return dict(_native.stats())
