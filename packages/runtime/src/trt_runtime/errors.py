"""Errors of trt_runtime. Each message says what was expected, what was found and what mends it."""


class TrtRuntimeError(RuntimeError):
    """Base of every error that trt_runtime raises on purpose."""


class RecordError(TrtRuntimeError):
    """The record of an engine is malformed, or it does not belong to its plan."""


class PlanError(TrtRuntimeError):
    """The bytes are no plan, or a plan that is damaged or was made for another record."""


class InputError(TrtRuntimeError):
    """The tensors given to an engine are not what its record says that it takes."""


class ExecutorUnavailableError(TrtRuntimeError):
    """Nothing here can run the engine: a package or a GPU is missing, or it needs a feature that is not there.

    Metadata, saving and tracing go on working.
    """


class DelegateNameTakenError(ExecutorUnavailableError):
    """Another library has registered an ExecuTorch backend under a name of our delegate's."""


class ExecutionError(TrtRuntimeError):
    """The engine was run and failed, or returned something other than its record says."""


class UsageError(TrtRuntimeError):
    """The command was given arguments that make no sense."""


class ProgramError(TrtRuntimeError):
    """A `.pte` cannot be read, loaded or run: damaged, of another kind, or not what was asked of it."""


class LibraryMismatchError(TrtRuntimeError, ImportError):
    """The native library does not fit the torch of this process, so it was not loaded."""
