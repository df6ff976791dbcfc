"""Compiling: partitions of a program become engines, the program calls them."""

from trt_export.compiling.compile import compile
from trt_export.compiling.report import (
    CompileReport,
    EngineSummary,
    EngineVerification,
    LeftNode,
    Phase,
    ProgressCallback,
    VerificationSummary,
)

__all__ = [
    "CompileReport",
    "EngineSummary",
    "EngineVerification",
    "LeftNode",
    "Phase",
    "ProgressCallback",
    "VerificationSummary",
    "compile",
]
