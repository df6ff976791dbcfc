"""Records of engines, as a mapping and as 13 strings: both packages read and refuse the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import trt_runtime
from trt_export import TrtExportError
from trt_export.engines.mapping import record_mapping, record_of_mapping
from trt_export.engines.record import EngineRecord, check_plan, parse_record
from trt_export.engines.slots import full_record
from trt_runtime import Engine, EngineInfo, TrtRuntimeError

from .cases import changed, load, slots_of

CONTRACT = load("records")
PLAN = bytes.fromhex(CONTRACT["plan"])
Case = tuple[str, dict[str, Any]]  # "mapping" or "slots", and the record itself


def cases(*, good: bool) -> list[Any]:
    """Every case, those of the metadata in both forms."""
    found = []
    for section, forms in (
        ("metadata cases", ("mapping", "slots")),
        ("mapping cases", ("mapping",)),
        ("slots cases", ("slots",)),
    ):
        for case in CONTRACT[section]:
            if ("field" not in case) is not good:
                continue
            for form in forms:
                prefix = "metadata." if form == "slots" and len(forms) == 2 else ""
                record = changed(CONTRACT[form], case, prefix)
                found.append(pytest.param((form, record), id=f"{form}: {case['name']}"))
    return found


def runtime_reads(case: Case) -> EngineInfo:
    form, record = case
    if form == "mapping":
        return Engine.from_plan(PLAN, record).info
    return Engine.deserialize(slots_of(record)).info


def export_reads(case: Case) -> EngineRecord:
    form, record = case
    if form == "mapping":
        return record_of_mapping(record)
    full = full_record(slots_of(record))
    found = parse_record(full.metadata)
    check_plan(found, full.decode_plan())
    return found


@pytest.mark.parametrize("case", cases(good=True))
def test_both_halves_say_the_same_of_a_good_record(case: Case) -> None:
    info, record = runtime_reads(case), export_reads(case)
    assert (info.name, info.device) == (record.name, record.device)
    for mine, theirs in ((info.inputs, record.inputs), (info.outputs, record.outputs)):
        assert [(b.name, b.dtype, b.shape, b.min, b.opt, b.max) for b in mine] == [
            (b.name, b.dtype, b.shape, b.minimum, b.optimum, b.maximum) for b in theirs
        ]
        assert [(b.multiple, b.offset) for b in mine] == [(b.multiple, b.offset) for b in theirs]
    assert info.hardware_compatible is record.hardware_compatible
    assert info.target_platform == record.target_platform
    assert info.requires_output_allocator is record.requires_output_allocator
    assert info.resource_allocation_strategy == record.allocation_strategy
    assert info.requires_native_multidevice is record.requires_native_multidevice
    assert [alias.to_mapping() for alias in info.aliased_io] == [vars(a) for a in record.aliased_io]
    assert info.provenance == record.provenance
    assert info.plan is not None
    assert record.plan in ({}, info.plan.to_mapping())


@pytest.mark.parametrize("case", cases(good=True))
def test_what_one_half_writes_the_other_reads_as_the_same(case: Case) -> None:
    info = runtime_reads(case)
    written = record_mapping(export_reads(case))
    assert Engine.from_plan(PLAN, written).info == info
    mapping = info.to_mapping()
    assert record_mapping(record_of_mapping(mapping)) == mapping
    strings = Engine.from_plan(PLAN, info).serialize()
    # A GPU's name and capability have no place in the mapping.
    assert record_mapping(parse_record(full_record(strings).metadata)) == mapping
    assert Engine.deserialize(strings).info == info


@pytest.mark.parametrize(
    ("read", "error"), [(runtime_reads, TrtRuntimeError), (export_reads, TrtExportError)]
)
@pytest.mark.parametrize("case", cases(good=False))
def test_both_halves_refuse_a_bad_record_with_an_error_of_theirs(
    case: Case, read: Callable[[Case], object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        read(case)


def test_every_bad_record_says_which_field_is_at_fault_and_why() -> None:
    bad = [
        case
        for section in ("metadata cases", "mapping cases", "slots cases")
        for case in CONTRACT[section]
        if "field" in case
    ]
    assert len(bad) > 130
    assert all(case["field"] and case["why"] for case in bad)


def test_the_limits_on_nesting_end_in_errors_and_not_in_pythons() -> None:
    deep: Any = 1
    for _ in range(20_000):
        deep = [deep]
    record = {**CONTRACT["mapping"], "provenance": {"deep": deep}}
    with pytest.raises(trt_runtime.RecordError):
        Engine.from_plan(PLAN, record)
    with pytest.raises(TrtExportError):
        record_of_mapping(record)
