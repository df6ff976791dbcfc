"""The JSON metadata in an engine's record: bindings, the plan's digest, provenance.

Schema 1 of `docs/engine-record.md`. Keys that are not known are left alone: fields are only added.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from trt_export.engines.binding import Binding
from trt_export.engines.rules import SEPARATORS, check_bindings
from trt_export.errors import EngineRecordError
from trt_export.json_text import load_json
from trt_export.plan import FORMATS

__all__ = [
    "Binding",
    "Metadata",
    "metadata_object",
    "parse_bindings",
    "parse_metadata",
    "parse_provenance",
]

DTYPES = frozenset(
    "float32 float16 bfloat16 float64 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905
)

REBUILD = "build the engine again with `trt-export build` of this version"


@dataclass(frozen=True)
class Metadata:
    """The metadata; `plan` and `provenance` are the mappings of that name."""

    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    plan: dict[str, Any]
    provenance: dict[str, Any]


def parse_metadata(text: str, engine: str) -> Metadata:
    """Read the metadata of the engine of that name.

    Raises:
        EngineRecordError: not JSON, another schema, a field of the wrong kind, or bindings as `check_bindings`.
    """
    data = metadata_object(text, engine)
    inputs = _bindings(data, "inputs", ("min", "opt", "max", "multiple", "offset"))
    outputs = _bindings(data, "outputs", ())
    check_bindings(inputs, outputs)
    if type(prepack := data.get("prepack", True)) is not bool:
        raise EngineRecordError(
            f"'prepack' in an engine's metadata must be true or false, found {prepack!r:.80}"
        )
    return Metadata(inputs, outputs, _plan(data), _mapping(data, "provenance"))


def parse_provenance(metadata: str) -> dict[str, Any]:
    """What the metadata says of the builder; empty if it is not ours, such as a pickle, which is not read."""
    try:
        return _mapping(metadata_object(metadata, ""), "provenance")
    except EngineRecordError:
        return {}


def parse_bindings(text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """The `inputs` and `outputs` of JSON that holds nothing else.

    Raises:
        EngineRecordError: not JSON, or a field of the wrong kind.
    """
    try:
        data = load_json(text)
    except ValueError as error:
        raise EngineRecordError(f"the bindings of an engine are not JSON: {error}") from error
    if not isinstance(data, dict):
        raise EngineRecordError(
            f"the bindings of an engine must be an object, found {type(data).__name__}"
        )
    return _bindings(data, "inputs", ("min", "opt", "max")), _bindings(data, "outputs", ())


def metadata_object(text: str, engine: str) -> dict[str, Any]:
    """Return the metadata as it is, of which the schema alone is checked.

    Raises:
        EngineRecordError: not JSON, or another schema.
    """
    try:
        metadata = load_json(text)
    except ValueError as error:
        raise EngineRecordError(
            f"the metadata of engine {engine!r} is not JSON ({error}); engines of torch-tensorrt hold a"
            f" pickle there, which is never loaded: {REBUILD}"
        ) from error
    found = metadata.get("schema") if isinstance(metadata, dict) else type(metadata).__name__
    if not isinstance(metadata, dict) or type(found) is not int or found != 1:  # True == 1 == 1.0
        raise EngineRecordError(
            f"expected metadata of schema 1 in engine {engine!r}, found {found!r}:"
            " install a trt-export that knows it"
        )
    return metadata


def _mapping(metadata: dict[str, Any], key: str) -> dict[str, Any]:
    value = metadata.get(key, {})
    if not isinstance(value, dict):
        raise EngineRecordError(
            f"{key!r} in an engine's metadata must be an object, found {value!r:.80}"
        )
    return value


def _plan(metadata: dict[str, Any]) -> dict[str, Any]:
    """The plan's format, size and sha256; empty if the record has not met its plan."""
    if metadata.get("plan") is None:
        return {}
    plan = _mapping(metadata, "plan")
    sha256 = plan.get("sha256")
    if not (
        plan.get("format") in FORMATS.values()
        and _is_size(plan.get("size"))
        and isinstance(sha256, str)
        and re.fullmatch("[0-9a-f]{64}", sha256)
    ):
        raise EngineRecordError(
            f"'plan' in an engine's metadata must have format ({', '.join(FORMATS.values())}), size and sha256, found"
            f" {plan!r:.160}; {REBUILD}"
        )
    return plan


def _bindings(metadata: dict[str, Any], key: str, bounds: Sequence[str]) -> tuple[Binding, ...]:
    entries = metadata.get(key)
    if not isinstance(entries, list):
        raise EngineRecordError(
            f"{key!r} in an engine's metadata must be a list, found {entries!r:.80}"
        )
    return tuple(_binding(entry, bounds) for entry in entries)


def _binding(entry: object, bounds: Sequence[str]) -> Binding:
    if not isinstance(entry, dict):
        raise EngineRecordError(f"a binding must be an object, found {entry!r:.80}")
    name, dtype, shape = entry.get("name"), entry.get("dtype"), entry.get("shape")
    if not isinstance(name, str) or not name or SEPARATORS & set(name):
        raise EngineRecordError(
            f"a binding's name must be text without % and @, found {name!r:.80}"
        )
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise EngineRecordError(
            f"binding {name!r} has dtype {dtype!r:.40}; known are {sorted(DTYPES)}"
        )
    if not isinstance(shape, list) or not all(
        isinstance(dim, str) or _is_size(dim) for dim in shape
    ):
        raise EngineRecordError(
            f"the shape of binding {name!r} must be a list of sizes and expressions, found {shape!r:.80}"
        )
    profile = {key: _sizes(entry, key, len(shape), name) for key in bounds}
    return Binding(name, dtype, tuple(shape), *profile.values())


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _sizes(entry: dict[str, Any], key: str, rank: int, name: str) -> tuple[int, ...] | None:
    sizes = entry.get(key)
    if sizes is None:
        return None
    if not isinstance(sizes, list) or len(sizes) != rank or not all(map(_is_size, sizes)):
        raise EngineRecordError(
            f"{key!r} of binding {name!r} must be {rank} sizes, found {sizes!r:.80}"
        )
    return tuple(sizes)
