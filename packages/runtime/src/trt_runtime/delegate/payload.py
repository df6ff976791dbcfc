"""The record of an engine out of a delegate's payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _native
from ..errors import RecordError
from ..info import EngineInfo
from ..record import check_plan, fields_from_info, read_metadata

# A payload has no field for the engine's name.
_NAME = "delegate"


def info_from_payload(payload: Mapping[str, Any], plan_format: str, plan_size: int) -> EngineInfo:
    """Read and check the record in a payload.

    Args:
        payload: the fields of the payload, as `_native.read_payload` gives them.
        plan_format: of the plan in it.
        plan_size: of the plan in it, in bytes.

    Raises:
        RecordError: the record is no good, or not that of the payload's bindings.
        PlanError: it is the record of another plan.

    """
    device = payload["device_id"]
    info = EngineInfo.from_mapping(
        {
            **read_metadata(payload["metadata"]),
            "name": _NAME,
            "device": "cpu" if device == -1 else f"cuda:{device}",
            **{
                key: payload[key]
                for key in ("aliased_io", "hardware_compatible", "target_platform")
            },
        }
    )
    for is_input, bindings in ((True, info.inputs), (False, info.outputs)):
        expected = sorted((binding.name, binding.dtype) for binding in bindings)
        found = sorted(
            (binding["name"], binding["dtype"])
            for binding in payload["bindings"]
            if binding["is_input"] is is_input
        )
        if expected != found:
            raise RecordError(
                f"delegate: expected the {'in' if is_input else 'out'}puts {expected} of the record, "
                f"found {found} in the payload; the file is damaged: lower it again"
            )
    _native.check_record(fields_from_info(info))
    check_plan(info, plan_format, plan_size)
    return info
