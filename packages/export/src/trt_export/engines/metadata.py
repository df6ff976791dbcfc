"""The JSON metadata in an engine's record: bindings, the plan's digest, provenance.

Schema 1 of `docs/engine-record.md`. Keys that are not known are left alone: fields are only added.
"""

import json
from dataclasses import dataclass
from typing import Any

from trt_export.errors import EngineRecordError

DTYPES = frozenset(
    "float32 float16 bfloat16 float64 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905
)

REBUILD = "build the engine again with `trt-export build` of this version"


@dataclass(frozen=True)
class Binding:
    """One input or output of an engine.

    `dtype` is the torch name without `torch.`. A dimension in `shape` is an int (static) or text: the name
    `i<input>d<dim>` or an expression over such names. `minimum`, `optimum` and `maximum` are the sizes of
    an input's profile, of the rank of `shape`; they are None for an output.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    minimum: tuple[int, ...] | None = None
    optimum: tuple[int, ...] | None = None
    maximum: tuple[int, ...] | None = None


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
        EngineRecordError: not JSON, another schema, or a field of the wrong kind.
    """
    data = _object(text, engine)
    inputs, outputs = _bindings(data, "inputs"), _bindings(data, "outputs")
    if not outputs:
        raise EngineRecordError(f"engine {engine!r} has no outputs; {REBUILD}")
    return Metadata(inputs, outputs, _mapping(data, "plan"), _mapping(data, "provenance"))


def parse_provenance(metadata: str) -> dict[str, Any]:
    """What the metadata says of the builder; empty if it is not ours, such as a pickle, which is not read."""
    try:
        return _mapping(_object(metadata, ""), "provenance")
    except EngineRecordError:
        return {}


def parse_bindings(text: str) -> tuple[tuple[Binding, ...], tuple[Binding, ...]]:
    """The `inputs` and `outputs` of JSON that holds nothing else.

    Raises:
        EngineRecordError: not JSON, or a field of the wrong kind.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineRecordError(f"the bindings of an engine are not JSON: {error}") from error
    if not isinstance(data, dict):
        raise EngineRecordError(
            f"the bindings of an engine must be an object, found {type(data).__name__}"
        )
    return _bindings(data, "inputs"), _bindings(data, "outputs")


def _object(text: str, engine: str) -> dict[str, Any]:
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise EngineRecordError(
            f"the metadata of engine {engine!r} is not JSON ({error}); engines of torch-tensorrt hold a"
            f" pickle there, which is never loaded: {REBUILD}"
        ) from error
    if not isinstance(metadata, dict) or metadata.get("schema") != 1:
        found = metadata.get("schema") if isinstance(metadata, dict) else type(metadata).__name__
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


def _bindings(metadata: dict[str, Any], key: str) -> tuple[Binding, ...]:
    entries = metadata.get(key)
    if not isinstance(entries, list):
        raise EngineRecordError(
            f"{key!r} in an engine's metadata must be a list, found {entries!r:.80}"
        )
    return tuple(_binding(entry) for entry in entries)


def _binding(entry: object) -> Binding:
    if not isinstance(entry, dict):
        raise EngineRecordError(f"a binding must be an object, found {entry!r:.80}")
    name, dtype, shape = entry.get("name"), entry.get("dtype"), entry.get("shape")
    if not isinstance(name, str) or not name or set(name) & set("%@"):
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
    profile = {key: _sizes(entry, key, len(shape), name) for key in ("min", "opt", "max")}
    return Binding(name, dtype, tuple(shape), profile["min"], profile["opt"], profile["max"])


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
