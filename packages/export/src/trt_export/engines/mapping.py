"""The record of one of our own engines by field name, as `docs/engine-record.md` has it."""

import json
import platform
import re
import sys
from collections.abc import Mapping
from typing import Any

from trt_export.engines.metadata import parse_metadata
from trt_export.engines.record import Alias, EngineRecord, check_record
from trt_export.errors import EngineRecordError
from trt_export.json_text import load_json

_STRATEGIES = ("static", "dynamic")
_THIS_PLATFORM = f"{sys.platform}_{platform.machine()}"  # what a record means that names none


def record_mapping(record: EngineRecord) -> dict[str, Any]:
    """A record by field name.

    Fields of its metadata that this version does not know are in it too.
    """
    metadata = load_json(record.metadata)
    del metadata["schema"]
    return {
        **metadata,
        "name": record.name,
        "device": record.device,
        "hardware_compatible": record.hardware_compatible,
        "target_platform": record.target_platform,
        "requires_output_allocator": record.requires_output_allocator,
        "resource_allocation_strategy": record.allocation_strategy,
        "requires_native_multidevice": record.requires_native_multidevice,
        "aliased_io": [vars(alias) for alias in record.aliased_io],
    }


def record_of_mapping(mapping: Mapping[str, Any]) -> EngineRecord:
    """A record that `record_mapping` gave, or that the engine's own `record()` gave.

    Raises:
        EngineRecordError: a field that is missing, or of another type, or something that trt-runtime refuses too.
    """
    name, device = _field(mapping, "name", str), _field(mapping, "device", str)
    if not re.fullmatch(r"cpu|cuda:[0-9]{1,4}", device):
        raise EngineRecordError(
            f"expected the device cpu or cuda:N in a record, found {device!r:.40}"
        )
    strategy = _field(mapping, "resource_allocation_strategy", str, "static")
    if strategy not in _STRATEGIES:
        raise EngineRecordError(
            f"expected the allocation strategy {' or '.join(_STRATEGIES)} in a record, found {strategy!r:.40}"
        )
    text = _metadata_text(mapping)
    metadata = parse_metadata(text, name)
    record = EngineRecord(
        name=name,
        device_index=-1 if device == "cpu" else int(device.removeprefix("cuda:")),
        inputs=metadata.inputs,
        outputs=metadata.outputs,
        hardware_compatible=_field(mapping, "hardware_compatible", bool, False),
        target_platform=_field(mapping, "target_platform", str, _THIS_PLATFORM),
        requires_output_allocator=_field(mapping, "requires_output_allocator", bool, False),
        allocation_strategy=strategy,
        requires_native_multidevice=_field(mapping, "requires_native_multidevice", bool, False),
        aliased_io=tuple(map(_alias, _field(mapping, "aliased_io", list, []))),
        metadata=text,
        plan=metadata.plan,
        provenance=metadata.provenance,
    )
    check_record(record)
    return record


def _metadata_text(mapping: Mapping[str, Any]) -> str:
    try:
        load_json(json.dumps({key: mapping[key] for key in mapping if key in _OWN}))
        return json.dumps({"schema": 1, **{k: v for k, v in mapping.items() if k not in _OWN}})
    except (TypeError, ValueError, RecursionError) as error:
        raise EngineRecordError(
            f"expected values that JSON can hold in a record, found: {error}"
        ) from error


# Fields that are not in the metadata.
_OWN = frozenset(
    (
        "name",
        "device",
        "hardware_compatible",
        "target_platform",
        "requires_output_allocator",
        "resource_allocation_strategy",
        "requires_native_multidevice",
        "aliased_io",
    )
)


def _alias(entry: object) -> Alias:
    if not isinstance(entry, dict):
        raise EngineRecordError(f"an alias in a record must be an object, found {entry!r:.80}")
    return Alias(*(_field(entry, key, str) for key in ("output", "input", "kind")))


def _field(mapping: Mapping[str, Any], key: str, kind: type, default: object = None) -> Any:
    value = mapping.get(key, default)
    if type(value) is not kind:
        raise EngineRecordError(
            f"{key!r} in a record must be of type {kind.__name__}, found {value!r:.80}"
        )
    return value
