"""Between `EngineInfo` and the fields of the native record, whose texts hold the rest as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import PlanError, RecordError
from .info import EngineInfo
from .json_text import dump_json, load_json

_SCHEMA = 1
_CPU = "-1%0%0%-1%cpu"
# Fields that have a slot of their own; all others are in the metadata JSON.
_SLOTS = (
    "name",
    "hardware_compatible",
    "target_platform",
    "requires_output_allocator",
    "resource_allocation_strategy",
    "requires_native_multidevice",
    "aliased_io",
)


def fields_from_info(info: EngineInfo) -> dict[str, Any]:
    """Return the native record's fields; raises RecordError if a value has no JSON."""
    mapping = info.to_mapping()
    fields = {key: mapping.pop(key) for key in _SLOTS}
    device = mapping.pop("device")
    fields["device"] = _CPU if device == "cpu" else f"{device.removeprefix('cuda:')}%0%0%0%"
    fields["inputs"] = [binding.name for binding in info.inputs]
    fields["outputs"] = [binding.name for binding in info.outputs]
    try:
        dump_json(fields)  # Texts have slots of their own, and must be whole characters there too.
        fields["metadata"] = dump_json({"schema": _SCHEMA, **mapping})
    except (TypeError, ValueError) as error:
        raise RecordError(f"record: expected values that JSON can hold, found: {error}") from None
    return fields


def info_from_fields(fields: Mapping[str, Any]) -> EngineInfo:
    """Read a native record; raises RecordError if its metadata is no good or contradicts its slots."""
    metadata = read_metadata(fields["metadata"])
    device = "cpu" if fields["device"] == _CPU else f"cuda:{int(fields['device'].split('%')[0])}"
    own = {key: fields[key] for key in _SLOTS}
    info = EngineInfo.from_mapping({**metadata, **own, "device": device})
    for kind, names, bindings in (
        ("input", fields["inputs"], info.inputs),
        ("output", fields["outputs"], info.outputs),
    ):
        found = [binding.name for binding in bindings]
        if found != names:
            raise RecordError(
                f"record: expected the {kind} bindings {names} in the metadata, found {found}; the "
                "record is damaged, make it again"
            )
    return info


def check_plan(info: EngineInfo, format: str, size: int) -> None:
    """Check that a record belongs to a plan, as far as that can be told without reading the plan.

    Raises:
        RecordError: the record names no plan.
        PlanError: it names another format or size.

    """
    if info.plan is None:
        raise RecordError(
            "record: field 'plan': expected format, size and sha256, found no such field"
        )
    if (info.plan.format, info.plan.size) != (format, size):
        raise PlanError(
            f"engine '{info.name}': expected a plan of format '{info.plan.format}' and "
            f"{info.plan.size} bytes, found '{format}' and {size} bytes; the plan is truncated or "
            "belongs to another record"
        )


def read_metadata(text: str) -> dict[str, Any]:
    """Read the JSON of a record; raises RecordError."""
    try:
        metadata = load_json(text)
    except ValueError as error:
        raise RecordError(
            f"record: metadata: expected JSON (schema {_SCHEMA}), found {text[:40]!r} ({error}); the "
            "engine was not made by trt-runtime, or the record is damaged: build it again with trt-export"
        ) from None
    schema = metadata.pop("schema", None) if isinstance(metadata, dict) else None
    if type(schema) is not int or schema != _SCHEMA:
        raise RecordError(
            f"record: metadata: expected a JSON object of schema {_SCHEMA}, found schema {schema!r}; "
            "install a trt-runtime that reads it: pip install -U trt-runtime"
        )
    return dict(metadata)
