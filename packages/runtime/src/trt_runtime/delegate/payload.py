"""The record of an engine, and the order of its bindings, out of a delegate's payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import _native
from ..errors import PlanError, RecordError
from ..info import Binding, EngineInfo
from ..json_text import load_json
from ..record import check_plan, fields_from_info, read_metadata

# An inline payload has no field for the engine's name.
_NAME = "delegate"
_MEND = "the file is damaged: lower it again"


@dataclass(frozen=True, slots=True)
class DelegateInfo:
    """A record, and the names of its inputs and outputs in the order of the delegate's arguments."""

    info: EngineInfo
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def info_from_payload(payload: Mapping[str, Any], plan_format: str, plan_size: int) -> DelegateInfo:
    """Read and check the record in a payload.

    Args:
        payload: the fields of the payload, as `_native.read_payload` gives them.
        plan_format: of the plan in it, or that it refers to.
        plan_size: of that plan, in bytes.

    Raises:
        RecordError: the record is no good, or not that of the payload's bindings.
        PlanError: it is the record of another plan.

    """
    found = _from_reference(payload) if "plan_key" in payload else _from_blob(payload)
    _native.check_record(fields_from_info(found.info))
    check_plan(found.info, plan_format, plan_size)
    return found


def _from_reference(payload: Mapping[str, Any]) -> DelegateInfo:
    try:
        record = load_json(payload["metadata"])["record"]
    except ValueError as error:  # Read natively already, by a reader that takes any depth.
        raise RecordError(f"delegate: expected a record in JSON, found: {error}; {_MEND}") from None
    info = EngineInfo.from_mapping(record)
    for kind, names, bindings in (
        ("inputs", payload["inputs"], info.inputs),
        ("outputs", payload["outputs"], info.outputs),
    ):
        expected = sorted(binding.name for binding in bindings)
        if expected != sorted(names):
            raise RecordError(
                f"delegate: expected the {kind} {expected} of the record, found {names} in the payload; {_MEND}"
            )
    if info.plan is not None and info.plan.sha256 != payload["plan_sha256"]:
        raise PlanError(
            f"delegate: expected the plan with the sha256 {info.plan.sha256} of the record, found a "
            f"reference to {payload['plan_sha256']}; {_MEND}"
        )
    return DelegateInfo(info, tuple(payload["inputs"]), tuple(payload["outputs"]))


def _from_blob(payload: Mapping[str, Any]) -> DelegateInfo:
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
    taken, given = (
        [binding for binding in payload["bindings"] if binding["is_input"] is is_input]
        for is_input in (True, False)
    )
    for kind, found, bindings in (("in", taken, info.inputs), ("out", given, info.outputs)):
        _compare(kind, found, bindings)
    return DelegateInfo(
        info, *(tuple(binding["name"] for binding in side) for side in (taken, given))
    )


def _compare(kind: str, found: list[dict[str, Any]], bindings: tuple[Binding, ...]) -> None:
    expected = sorted((binding.name, binding.dtype) for binding in bindings)
    names = sorted((binding["name"], binding["dtype"]) for binding in found)
    if expected != names:
        raise RecordError(
            f"delegate: expected the {kind}puts {expected} of the record, found {names} in the payload; {_MEND}"
        )
