"""An engine's record as a list of strings: which fields there are, and with or without the plan.

The format is that of `docs/engine-record.md`; slots, order and ABI numbers are those of the record in use in the
field (torch-tensorrt). There, fields were only ever added at the end. This module is the only one that knows them.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from trt_export.engines.metadata import REBUILD
from trt_export.errors import CorruptPlanError, EngineRecordError

ABI = "10"
FIELDS = (
    "ABI", "name", "device", "engine", "input names", "output names", "hardware-compatible",
    "metadata", "target platform", "requires output allocator", "resource allocation strategy",
    "requires native multi-device", "aliased I/O",
)  # fmt: skip
ENGINE = "engine"
# ABI to number of fields: our own engines have one, those of torch-tensorrt 2.3 to 2.14 all of them.
OWN_ABIS: Mapping[str, int] = MappingProxyType({ABI: 13})
FOREIGN_ABIS: Mapping[str, int] = MappingProxyType(
    {"5": 7, "6": 9, "7": 10, "8": 11, "9": 12, ABI: 13}
)
# What a field means that a record is too old to have.
_DEFAULTS = {
    "metadata": "",
    "target platform": "",
    "requires output allocator": "0",
    "resource allocation strategy": "0",
    "requires native multi-device": "0",
    "aliased I/O": "",
}
_PIECE = 1 << 22  # characters of base64, a multiple of 4


@dataclass(frozen=True)
class MetadataRecord:
    """A record without its plan: every field of `FIELDS` but the engine, by name.

    It is no list, and there is nothing in it that could be taken for an engine or decoded to an empty one.
    """

    fields: Mapping[str, str]

    def __getitem__(self, name: str) -> str:
        return self.fields[name]

    def strings(self) -> tuple[str, ...]:
        """The 13 strings of a record, with "" for the engine."""
        return tuple(self.fields.get(name, "") for name in FIELDS)


@dataclass(frozen=True)
class FullRecord:
    """A record with its plan, in base64: a third larger than the plan."""

    metadata: MetadataRecord
    engine: str = field(repr=False)

    def decode_plan(self) -> bytearray:
        """The plan's bytes, decoded by pieces: base64.b64decode makes two more copies of a long text.

        Raises:
            CorruptPlanError: the text is not padded base64.
        """
        text = self.engine
        plan = bytearray(max(0, len(text) // 4 * 3 - text[-2:].count("=")))
        position = 0
        try:
            if len(text) % 4:
                raise ValueError(f"{len(text)} characters are no multiple of 4")
            for start in range(0, len(text), _PIECE):
                piece = base64.b64decode(text[start : start + _PIECE], validate=True)
                plan[position : position + len(piece)] = piece
                position += len(piece)
            last = plan[(position - 1) // 3 * 3 :] if position else b""
            if base64.b64encode(last).decode() != text[-4:]:  # "QR==" and "QQ==" both give "A".
                raise ValueError("expected zero bits before the padding, found others")
        except ValueError as error:
            raise CorruptPlanError(
                f"the engine slot of the record is not base64: {error}; {REBUILD}"
            ) from error
        if position != len(plan):
            raise CorruptPlanError(f"the engine slot of the record is not base64; {REBUILD}")
        return plan


def full_record(slots: Sequence[object], abis: Mapping[str, int] = OWN_ABIS) -> FullRecord:
    """The record in an engine's state.

    Raises:
        EngineRecordError: wrong length, ABI or type. Length and ABI are checked before any other slot is read.
        CorruptPlanError: its engine slot holds no text.
    """
    metadata = _metadata(slots, abis)
    engine = slots[FIELDS.index(ENGINE)]
    if not isinstance(engine, str):
        raise CorruptPlanError(f"the engine slot must be base64 text, not {type(engine).__name__}")
    return FullRecord(metadata, engine)


def metadata_record(slots: Sequence[object], abis: Mapping[str, int] = OWN_ABIS) -> MetadataRecord:
    """The record that an engine's `serialize_metadata_only()` returned.

    Raises:
        EngineRecordError: as `full_record`, or the engine slot is not None.
    """
    metadata = _metadata(slots, abis)
    engine = slots[FIELDS.index(ENGINE)]
    if engine is not None:
        raise EngineRecordError(
            "serialize_metadata_only() must leave the engine slot None, found"
            f" {f'text of {len(engine)} characters' if isinstance(engine, str) else type(engine).__name__}"
        )
    return metadata


def metadata_of_strings(strings: Sequence[str]) -> MetadataRecord:
    """What `MetadataRecord.strings` returned, read back.

    Raises:
        EngineRecordError: as `full_record`.
    """
    return _metadata(strings, FOREIGN_ABIS, len(FIELDS))


def _metadata(
    slots: Sequence[object], abis: Mapping[str, int], length: int | None = None
) -> MetadataRecord:
    if not slots or (length is None and len(slots) not in abis.values()):
        raise EngineRecordError(
            f"an engine record of ABI {_listed(abis)} has {_listed(abis.values())} fields, this one has"
            f" {len(slots)} (ABI {slots[0] if slots else 'missing'!s:.40}): it was made by another version;"
            f" {REBUILD}"
        )
    abi = slots[0]
    if not isinstance(abi, str) or abi not in abis:
        raise EngineRecordError(
            f"expected an engine record of ABI {_listed(abis)}, found {abi!r:.40}; {REBUILD}"
        )
    expected = length or abis[abi]
    if len(slots) != expected:
        raise EngineRecordError(
            f"an engine record of ABI {abi} has {expected} fields, this one has {len(slots)}; {REBUILD}"
        )
    fields = dict(_DEFAULTS)
    for name, value in zip(FIELDS, slots, strict=False):
        if name == ENGINE:
            continue
        if not isinstance(value, str):
            raise EngineRecordError(
                f"field {name!r} of an engine record must be a string, not {type(value).__name__}"
            )
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise EngineRecordError(
                f"field {name!r} of an engine record must be of whole characters, found {value!r:.80}"
            ) from error
        fields[name] = value
    return MetadataRecord(MappingProxyType(fields))


def _listed(items: object) -> str:
    values = [str(item) for item in items]  # type: ignore[attr-defined]
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}"
