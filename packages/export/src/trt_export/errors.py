"""Every error that trt_export raises on purpose; all derive from `TrtExportError`. And its one warning.

A message names what was expected, what was found and the way out.
"""


class TrtExportError(Exception):
    """Base of all errors of this package."""


class ArgumentError(TrtExportError):
    """An argument of a function has a type or a value that the function does not take."""


class PlanError(TrtExportError):
    """A plan (the bytes of a built engine) cannot be used."""


class UnknownPlanFormatError(PlanError):
    """The bytes begin with no magic of a known plan format, or with a version that is not known."""


class TruncatedPlanError(PlanError):
    """The plan ends before the place that its header names, or goes on behind it."""


class CorruptPlanError(PlanError):
    """The plan's bytes do not have the checksum or the structure that its header promises."""


class BuilderError(TrtExportError):
    """A builder cannot do what it was asked for."""


class UnknownBuilderError(BuilderError):
    """No builder has this name."""


class MissingBuilderError(BuilderError):
    """The package behind a builder is not installed; the message names the extra to install."""


class ComputeCapabilityError(BuilderError):
    """A compute capability is missing, malformed, or not one that the builder can build for."""


class BuildFailedError(BuilderError):
    """The builder took the model and did not make a plan; the message carries its own log."""


class CompileError(TrtExportError):
    """A program cannot be compiled into engine calls."""


class UnsupportedProgramError(CompileError):
    """The program has something that compilation cannot keep right, such as a mutated input."""


class DynamicShapeError(CompileError):
    """The bounds of a dynamic dimension are missing, or contradict the program."""


class UnboundedDimensionError(DynamicShapeError):
    """A dynamic dimension has no maximum; the message names the input and how to bound it."""


class NothingToCompileError(CompileError):
    """No part of the program can become an engine; the message lists the reasons."""


class MissingCapabilityError(TrtExportError):
    """An engine lacks capabilities, and TRT_EXPORT_STRICT=1 asks for no fallback; no program was changed."""


class PassOrderError(TrtExportError):
    """Passes were put together in an order that they do not allow; the message lists every violation."""


class EngineRecordError(TrtExportError):
    """The record of an engine has another length, ABI or content than this version reads."""


class LoweringError(TrtExportError):
    """A program with engine calls cannot be lowered; no program was changed."""


class NoEngineError(LoweringError):
    """The program calls no engine."""


class EngineObjectError(LoweringError):
    """The engine argument of a call is no engine object, or not one that can be reached from the program."""


class OutputAllocatorError(LoweringError):
    """The engine has outputs whose size only its run can tell, which ExecuTorch cannot plan for."""


class BindingMismatchError(LoweringError):
    """A call and its engine differ in the number or the names of bindings."""


class BindingTypeError(LoweringError):
    """A tensor of the graph and the engine's binding differ in dtype, rank or size."""


class DynamicNumberError(LoweringError):
    """An input is an int, float or bool that may change from call to call."""


class StringArgumentError(LoweringError):
    """An input or output is a string, for which a .pte has no place."""


class ComplexNumberError(LoweringError):
    """An operator on complex numbers that ExecuTorch does not run, or computes wrong."""


class DataDependentShapeError(LoweringError):
    """An operator whose result has a size that only its run tells, and that ExecuTorch gets wrong."""


class ConstantDeviceError(LoweringError):
    """A weight or constant of the program is not on the CPU."""


class BlobError(TrtExportError):
    """The payload of a delegate is not a well-formed engine blob."""


class FileFormatError(TrtExportError):
    """A file is not of the kind that was asked for, or is damaged."""


class OutputFileError(TrtExportError):
    """A file cannot be written where it was asked for."""


class UsageError(TrtExportError):
    """The command line or an environment variable asks for something that cannot be meant."""


class FallbackWarning(UserWarning):
    """An engine's library is too old for a fast way; a slower one is taken, with the same result."""
