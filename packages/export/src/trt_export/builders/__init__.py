"""Builders: each makes plans of one format from the ONNX model of a partition."""

from collections.abc import Sequence

from trt_export.builders.base import (
    Binding,
    Builder,
    BuildRequest,
    NodeRefusal,
    NodesRefused,
    build_for_rtx,
)
from trt_export.builders.onnx_file import OnnxFile
from trt_export.builders.onnx_session import (
    RUNTIME_SETTINGS,
    OptimizedSession,
    ReferenceSession,
)
from trt_export.builders.onnxruntime import OnnxRuntimeBuilder
from trt_export.builders.plan_file import Plan, PlanFile
from trt_export.builders.tensorrt import TensorRTBuilder
from trt_export.builders.weight_bytes import byte_blocks
from trt_export.errors import ComputeCapabilityError, UnknownBuilderError
from trt_export.hints import hint

__all__ = [
    "BUILDER_NAMES",
    "RUNTIME_SETTINGS",
    "Binding",
    "BuildRequest",
    "Builder",
    "NodeRefusal",
    "NodesRefused",
    "OnnxFile",
    "OptimizedSession",
    "Plan",
    "PlanFile",
    "ReferenceSession",
    "byte_blocks",
    "get_builder",
]

BUILDER_NAMES = ("onnxruntime", "tensorrt-rtx", "tensorrt")


def get_builder(name: str, compute_capabilities: Sequence[str] | None = None) -> Builder:
    """Return the builder of that name.

    Raises:
        UnknownBuilderError: there is none of that name.
        MissingBuilderError: its package is not installed.
        ComputeCapabilityError: the capabilities are not for this builder, or not ones that it builds for.
    """
    if name == "onnxruntime":
        if compute_capabilities is not None:
            raise ComputeCapabilityError(
                "builder onnxruntime runs on the CPU and takes no compute capabilities: leave"
                f" {hint('them', '--compute-capability')} out, or build for a GPU ({build_for_rtx()})"
            )
        return OnnxRuntimeBuilder()
    if name in ("tensorrt-rtx", "tensorrt"):
        return TensorRTBuilder(name, compute_capabilities)
    raise UnknownBuilderError(f"there is no builder {name!r}; builders: {', '.join(BUILDER_NAMES)}")
