"""Headers of plans: both packages read and refuse the same, and what trt-export writes is what the contract says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trt_export.errors import PlanError as ExportPlanError
from trt_export.plan import check_plan, read_plan_header, write_onnxruntime_plan
from trt_runtime import PlanError, _native

from .cases import load, plan_bytes

CONTRACT = load("plans")
BASE = CONTRACT["base"]
CASES = CONTRACT["cases"]
GOOD = [case for case in CASES if "field" not in case]
BAD = [case for case in CASES if "field" in case]


def name(case: dict[str, Any]) -> str:
    return str(case["name"])


@pytest.mark.parametrize("case", GOOD, ids=name)
def test_both_halves_say_the_same_of_a_good_plan(case: dict[str, Any]) -> None:
    data = plan_bytes(case, BASE)
    plan = _native.copy_plan(data)
    header = check_plan(data)
    assert plan.format == header.format == case["format"]
    assert header.size == len(data) == memoryview(plan).nbytes
    if case["format"] == "onnxruntime":
        says = {"model_size": case["says"]["payload_size"], **case["says"]}
        assert {key: getattr(header, key) for key in says} == says
        assert (plan.payload_offset, plan.model_size) == (
            says["payload_offset"],
            says["model_size"],
        )
        assert plan.payload_sha256.hex() == header.sha256


@pytest.mark.parametrize("case", BAD, ids=name)
def test_a_bad_plan_is_refused_by_those_that_the_contract_names(case: dict[str, Any]) -> None:
    data = plan_bytes(case, BASE)
    assert case["why"]
    with pytest.raises(ExportPlanError):
        read_plan_header(data)
    if "trt_runtime" in case["refused_by"]:
        with pytest.raises(PlanError):
            _native.copy_plan(data)
    else:
        _native.copy_plan(data)


def test_every_field_of_our_header_is_refused_once_at_least() -> None:
    both = {case["field"] for case in BAD if len(case["refused_by"]) == 2}
    assert both >= {
        *("magic", "header", "version", "flags", "payload offset", "provenance size"),
        *("payload size", "model size", "reserved", "padding"),
    }


def test_what_trt_export_writes_is_the_whole_plan() -> None:
    payload = bytes.fromhex(BASE["payload"])
    written = write_onnxruntime_plan([memoryview(payload)], json.loads(BASE["provenance"]["raw"]))
    assert written == plan_bytes(CASES[0], BASE)


def test_no_plan_is_written_that_both_refuse() -> None:
    with pytest.raises(ExportPlanError, match="provenance of at most"):
        write_onnxruntime_plan([memoryview(b"onnx")], {"a": "x" * (1 << 20)})
