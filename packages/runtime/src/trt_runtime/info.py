"""What an engine says about itself: frozen, validated, without the plan's bytes."""

from __future__ import annotations

import copy
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from .errors import RecordError
from .expressions import compile_expression, dim_name
from .fields import Fields, is_size

DTYPES: Mapping[str, torch.dtype] = {
    name: getattr(torch, name)
    for name in (
        *("float32", "float16", "bfloat16", "float64"),
        *("int64", "int32", "int16", "int8", "uint8", "bool"),
    )
}
PLAN_FORMATS = ("onnxruntime", "tensorrt", "tensorrt-rtx")
ALLOCATION_STRATEGIES = ("static", "dynamic")
THIS_PLATFORM = f"{sys.platform}_{platform.machine()}"


@dataclass(frozen=True, slots=True)
class Binding:
    """One input or output of an engine.

    `shape` has an int for a static dimension and a text for any other: an input's own name for a free
    dimension (``i0d1``: input 0, dimension 1), else an expression over free dimensions. `min`, `opt`
    and `max` are the sizes that an input may have, one per dimension; an output has none. If `multiple`
    and `offset` are given, a size is also an integer times its multiple plus its offset.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    min: tuple[int, ...] | None = None
    opt: tuple[int, ...] | None = None
    max: tuple[int, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    multiple: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch has it."""
        return DTYPES[self.dtype]

    @classmethod
    def from_mapping(cls, mapping: object, where: str, *, is_input: bool) -> Binding:
        """Read a binding; ``where`` begins the messages. Raises RecordError."""
        fields = Fields(mapping, where)
        name = fields.get("name", str)
        fields = Fields(mapping, f"{where} '{name}'")
        fields.get("name", str)
        shape = tuple(fields.items("shape"))
        if not all(is_size(dim) or isinstance(dim, str) for dim in shape):
            raise fields.error("shape", "sizes and shape expressions", repr(list(shape)))
        bounds: dict[str, tuple[int, ...]] = {}
        if is_input:
            bounds = {key: fields.sizes(key, len(shape)) for key in ("min", "opt", "max")}
            _check_bounds(fields, shape, **bounds)
            bounds |= _steps(fields, shape)
        return cls(
            name=name,
            dtype=fields.choice("dtype", DTYPES),
            shape=shape,
            **bounds,
            extra=fields.rest(),
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the fields by name, as `from_mapping` reads them."""
        bounds = {
            "min": self.min,
            "opt": self.opt,
            "max": self.max,
            "multiple": self.multiple,
            "offset": self.offset,
        }
        return {
            "name": self.name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            **{key: list(value) for key, value in bounds.items() if value is not None},
            **copy.deepcopy(dict(self.extra)),
        }


def _check_bounds(
    fields: Fields,
    shape: tuple[int | str, ...],
    *,
    min: tuple[int, ...],
    opt: tuple[int, ...],
    max: tuple[int, ...],
) -> None:
    for index, (dim, low, usual, high) in enumerate(zip(shape, min, opt, max, strict=True)):
        if isinstance(dim, int) and not low == usual == high == dim:
            expected = f"min = opt = max = {dim} in the static dimension {index}"
            raise fields.error("min", expected, f"{low}, {usual}, {high}")
        if not low <= usual <= high:
            raise fields.error(
                "min", f"min <= opt <= max in dimension {index}", f"{low}, {usual}, {high}"
            )


def _steps(fields: Fields, shape: tuple[int | str, ...]) -> dict[str, tuple[int, ...]]:
    """Read `multiple` and `offset`, which come together or not at all."""
    keys = ("multiple", "offset")
    if all(fields.raw(key) is None for key in keys):
        return {}
    steps = {key: fields.sizes(key, len(shape)) for key in keys}
    for index, (dim, multiple, offset) in enumerate(zip(shape, *steps.values(), strict=True)):
        if isinstance(dim, int) and (multiple, offset) != (1, 0):
            expected = f"multiple 1 and offset 0 in the static dimension {index}"
            raise fields.error("multiple", expected, f"{multiple}, {offset}")
        if not offset < multiple:
            raise fields.error(
                "offset", f"0 <= offset < multiple in dimension {index}", f"{offset}, {multiple}"
            )
    return steps


@dataclass(frozen=True, slots=True)
class AliasedIO:
    """An output that shares the memory of an input."""

    output: str
    input: str
    kind: str

    @classmethod
    def from_mapping(cls, mapping: object, where: str = "record: aliased_io") -> AliasedIO:
        """Read an alias. Raises RecordError."""
        fields = Fields(mapping, where)
        return cls(**{key: fields.get(key, str) for key in ("output", "input", "kind")})

    def to_mapping(self) -> dict[str, str]:
        """Return the fields by name."""
        return {"output": self.output, "input": self.input, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class PlanInfo:
    """Which plan a record belongs to: `format`, `size` in bytes, and `sha256` in hex of all bytes."""

    format: str
    size: int
    sha256: str
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, mapping: object, where: str = "record: plan") -> PlanInfo:
        """Read it. Raises RecordError."""
        fields = Fields(mapping, where)
        sha256 = fields.get("sha256", str)
        if not re.fullmatch("[0-9a-f]{64}", sha256):
            raise fields.error("sha256", "64 lower-case hex digits", repr(sha256[:80]))
        return cls(
            format=fields.choice("format", PLAN_FORMATS),
            size=fields.size("size"),
            sha256=sha256,
            extra=fields.rest(),
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the fields by name."""
        return {
            "format": self.format,
            "size": self.size,
            "sha256": self.sha256,
            **copy.deepcopy(dict(self.extra)),
        }


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The record of an engine by field name; docs/engine-record.md says what each field means.

    `plan` is None only for a record that has not met its plan. `extra` holds fields that this version
    does not know: they stay in the record.
    """

    name: str
    device: str
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]
    plan: PlanInfo | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    hardware_compatible: bool = False
    target_platform: str = THIS_PLATFORM
    requires_output_allocator: bool = False
    resource_allocation_strategy: str = "static"
    requires_native_multidevice: bool = False
    aliased_io: tuple[AliasedIO, ...] = ()
    prepack: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> EngineInfo:
        """Read and check a record.

        Raises:
            RecordError: a field is missing, of the wrong type or in contradiction to another; the
                message names the binding, what was expected and what was found.

        """
        try:
            info = cls._read(Fields(mapping, "record"))
        except RecursionError:
            raise RecordError(
                "record: expected values that JSON can hold, found ones nested too deeply; see "
                "docs/engine-record.md"
            ) from None
        _check(info)
        return info

    @classmethod
    def _read(cls, fields: Fields) -> EngineInfo:
        plan = fields.raw("plan")
        return cls(
            name=fields.get("name", str),
            device=fields.get("device", str),
            inputs=tuple(
                Binding.from_mapping(binding, f"record: input {index}", is_input=True)
                for index, binding in enumerate(fields.items("inputs"))
            ),
            outputs=tuple(
                Binding.from_mapping(binding, f"record: output {index}", is_input=False)
                for index, binding in enumerate(fields.items("outputs"))
            ),
            plan=None if plan is None else PlanInfo.from_mapping(plan),
            provenance=copy.deepcopy(dict(fields.get("provenance", Mapping, {}))),  # type: ignore[type-abstract]
            hardware_compatible=fields.get("hardware_compatible", bool, False),
            target_platform=fields.get("target_platform", str, THIS_PLATFORM),
            requires_output_allocator=fields.get("requires_output_allocator", bool, False),
            resource_allocation_strategy=fields.choice(
                "resource_allocation_strategy", ALLOCATION_STRATEGIES, "static"
            ),
            requires_native_multidevice=fields.get("requires_native_multidevice", bool, False),
            aliased_io=tuple(
                AliasedIO.from_mapping(alias) for alias in fields.items("aliased_io", ())
            ),
            prepack=fields.get("prepack", bool, True),
            extra=copy.deepcopy(fields.rest()),
        )

    def to_mapping(self) -> dict[str, Any]:
        """Return the record as `from_mapping` and `Engine.from_plan` take it, as JSON-able values."""
        return {
            "name": self.name,
            "device": self.device,
            "inputs": [binding.to_mapping() for binding in self.inputs],
            "outputs": [binding.to_mapping() for binding in self.outputs],
            **({} if self.plan is None else {"plan": self.plan.to_mapping()}),
            "provenance": copy.deepcopy(dict(self.provenance)),
            "hardware_compatible": self.hardware_compatible,
            "target_platform": self.target_platform,
            "requires_output_allocator": self.requires_output_allocator,
            "resource_allocation_strategy": self.resource_allocation_strategy,
            "requires_native_multidevice": self.requires_native_multidevice,
            "aliased_io": [alias.to_mapping() for alias in self.aliased_io],
            **({} if self.prepack else {"prepack": False}),
            **copy.deepcopy(dict(self.extra)),
        }


def _check(info: EngineInfo) -> None:
    """Check what no field can say alone. Names are checked natively, where the record is made."""
    if not re.fullmatch(r"cpu|cuda:\d{1,4}", info.device, re.ASCII):
        raise RecordError(
            f"record: field 'device': expected 'cpu' or 'cuda:N', found {info.device!r}; name the "
            "device that the engine was built for"
        )
    free = {
        dim_name(i, d)
        for i, binding in enumerate(info.inputs)
        for d, dim in enumerate(binding.shape)
        if dim == dim_name(i, d)
    }
    bindings = [("input", binding) for binding in info.inputs]
    bindings += [("output", binding) for binding in info.outputs]
    for kind, binding in bindings:
        for dim in binding.shape:
            if isinstance(dim, int):
                continue
            try:
                unknown = compile_expression(dim).names - free
            except RecordError as error:
                raise RecordError(f"record: {kind} '{binding.name}': {error}") from None
            if unknown:
                raise RecordError(
                    f"record: {kind} '{binding.name}': expected expressions over the free input "
                    f"dimensions {sorted(free)}, found {sorted(unknown)} in {dim!r}; an input dimension "
                    "is free if its shape has its own name there"
                )
