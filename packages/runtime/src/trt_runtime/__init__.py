"""TensorRT (or ONNX Runtime) engines as PyTorch objects: hold, save, trace and run them."""

from . import interrupts as _interrupts  # isort: skip  # noqa: F401 - handles Ctrl-C from here on

from .errors import (
    DelegateNameTakenError,
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
from . import state as _state  # noqa: E402
from . import tracing as _tracing  # noqa: E402
from .delegate.program import Program, load  # noqa: E402
from .delegate.registration import register_delegate  # noqa: E402
from .engine import Engine  # noqa: E402
from .exported import load_program, save_program  # noqa: E402
from .info import AliasedIO, Binding, EngineInfo, PlanInfo  # noqa: E402
from .tracing import restore_engines  # noqa: E402

_executors.register()
_tracing.register()
_state.register()

__version__: str = _native.build_info()["version"]

__all__ = [
    "AliasedIO",
    "Binding",
    "DelegateNameTakenError",
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
    "load_program",
    "register_delegate",
    "restore_engines",
    "save_program",
    "stats",
]


def capabilities() -> frozenset[str]:
    """Return what the engines of this build can do beyond the baseline, by name.

    An engine object gives the same names, sorted, by its method ``capabilities()``.

    - ``tracing-mode-real``: an engine is traced as itself, nothing of it is serialized or copied.
    - ``metadata-only``: ``serialize_metadata_only()`` of an engine object gives its record without the
      plan, at a cost that does not depend on the size of the plan.
    - ``engine-tensor``: ``serialized_engine_tensor()`` gives the plan as a tensor, without a copy.
    - ``record``: ``record()`` gives the record by field name, without the plan, at a cost that does not
      depend on its size.
    - ``plan-digest``: ``plan_sha256()`` gives the sha256 of the plan in hex; a plan is hashed once.
    - ``tensor-state``: torch saves an engine with its plan as it is, not in base64, and copies of an engine
      share its plan. ``__getstate__()`` called from Python is the list of strings that it always was, and
      states of every earlier release are read.
    - ``exact-int8``: ONNX Runtime computes quantized models exactly, also on processors where its fast way
      saturates.
    - ``external-weights``: `onnxruntime` plans may have their weights behind the ONNX model, which then may be of
      any size, and are read where they lie; records may say ``prepack`` (docs/engine-record.md).
    - ``mapped-plans``: `Engine.from_plan` and `load_program` map the plans in files rather than read them.
    - ``named-data-delegate``: the delegate of this release runs programs whose plans are in named data
      (docs/delegate.md), besides those that have them in the payloads.
    """
    return frozenset(_native.capabilities())


def stats() -> dict[str, int]:
    """Return what this process has done to engines since it started, exact, counted natively.

    - ``serializations``: full records, the plan in base64, that were produced (`Engine.serialize`, the state of
      an engine for code that is neither torch nor Python's copy).
    - ``deserializations``: engines made of such a record (`Engine.deserialize`, files of earlier releases).
    - ``base64_encodes``, ``base64_decodes``: plans that went through base64.
    - ``plan_copies``: other full copies of a plan's bytes: a buffer that could still change given to
      `Engine.from_plan`, a model of whose large weights ONNX Runtime needs more than half as a copy, pickling
      with protocol 3 or 4.
    - ``plan_hashes``: sha256 sums over a plan. A plan keeps its sum, so this is at most one for each, one more for
      a run after `Engine.plan_tensor`, through which it may have changed, and one more for the
      first run of an `onnxruntime` plan that its record was made of, which has a sum of its own to compare with.
    - ``executor_loads``: plans that were deserialized to run: one per engine that has run, one for all
      delegates of the same plan.
    - ``delegate_bindings``: sets of arguments that delegates were bound to; calls with the same memory and
      sizes need no new one.
    """
    return dict(_native.stats())
