"""An engine's own fields, for whatever holds it."""

from typing import Any

from trt_export.engines.metadata import Binding
from trt_export.engines.record import EngineRecord
from trt_export.inspecting.model import BindingInfo, EngineInfo
from trt_export.plan import PlanHeader


def engine_info(
    record: EngineRecord, plan: PlanHeader, bindings: tuple[BindingInfo, ...]
) -> EngineInfo:
    """An engine in a `.pt2`, by its record."""
    return EngineInfo(
        name=record.name,
        container="record",
        **plan_fields(plan),
        device=record.device,
        hardware_compatible=record.hardware_compatible,
        target_platform=record.target_platform,
        bindings=bindings,
        aliased_io=tuple((a.output, a.input, a.kind) for a in record.aliased_io),
        provenance=record.provenance,
    )


def plan_fields(plan: PlanHeader) -> dict[str, Any]:
    """What the header of a plan tells."""
    return {
        "plan_format": plan.format,
        "plan_size": plan.size,
        "plan_version": plan.version,
        "compute_capabilities": plan.compute_capabilities,
    }


def profile(binding: Binding) -> dict[str, tuple[int, ...]] | None:
    """The sizes that an input was built for; None for an output."""
    sizes = {
        "min": binding.minimum,
        "opt": binding.optimum,
        "max": binding.maximum,
        "multiple": binding.multiple,
        "offset": binding.offset,
    }
    return {key: value for key, value in sizes.items() if value is not None} or None
