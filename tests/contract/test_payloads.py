"""Payloads of delegates: what `trt-export info` and `trt-runtime check` say of the same bytes in a `.pte`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from trt_export.delegate.blob import (
    BlobAlias,
    BlobBinding,
    BlobMetadata,
    build_blob,
)
from trt_export.delegate.header import build_payload, parse_payload
from trt_export.files.pte import Delegate as ExportDelegate
from trt_export.formats import BACKENDS, NAMED_DATA, TR01
from trt_export.inspecting.model import DelegateInfo
from trt_export.inspecting.of_pte import _delegate as export_describes
from trt_runtime.delegate.check import INVALID, CheckedDelegate
from trt_runtime.delegate.check import _check as runtime_checks
from trt_runtime.delegate.pte import Delegate as RuntimeDelegate

from .cases import load, payload_bytes

CONTRACT = load("payloads")
PLAN = bytes.fromhex(CONTRACT["plan"])
CASES = CONTRACT["cases"]
GOOD = [case for case in CASES if "field" not in case]
BAD = [case for case in CASES if "field" in case]


def name(case: dict[str, Any]) -> str:
    return str(case["name"])


def named_data() -> dict[str, memoryview]:
    whole = parse_payload(payload_bytes(GOOD[0], CONTRACT))
    return {whole.plan_key: memoryview(PLAN)}


def export_info(case: dict[str, Any]) -> DelegateInfo:
    """What trt-export's `info` says of a delegate with this payload."""
    data = payload_bytes(case, CONTRACT)
    backend = BACKENDS[NAMED_DATA if case["base"] == "TRTN" else TR01]
    delegate = ExportDelegate(backend, 0, len(data), True, ())
    return export_describes(delegate, memoryview(data), named_data())


def runtime_check(case: dict[str, Any]) -> CheckedDelegate:
    """What trt-runtime's `check` says of it."""
    data = payload_bytes(case, CONTRACT)
    backend = BACKENDS[NAMED_DATA if case["base"] == "TRTN" else TR01]
    delegate = RuntimeDelegate("forward", backend, 0, len(data))
    return runtime_checks(delegate, memoryview(data), named_data())


@pytest.mark.parametrize("case", GOOD, ids=name)
def test_both_halves_say_the_same_of_a_good_payload(case: dict[str, Any]) -> None:
    described, checked = export_info(case), runtime_check(case)
    assert described.problem is None
    engine = described.engine
    assert engine is not None
    assert (engine.plan_format, engine.plan_size) == (checked.format, checked.plan_size)
    assert engine.provenance == checked.provenance
    assert engine.container == case["base"]
    # A payload is good although this machine may have no GPU for it.
    if engine.device == "cpu":
        assert checked.verdict != INVALID
        assert checked.target == "cpu"


@pytest.mark.parametrize("case", BAD, ids=name)
def test_both_halves_refuse_a_bad_payload_and_say_why(case: dict[str, Any]) -> None:
    """Only errors of theirs become a problem or a verdict: any other exception ends this test."""
    assert case["why"]
    described, checked = export_info(case), runtime_check(case)
    assert (described.problem is not None) is ("trt_export" in case["refused_by"])
    assert checked.verdict == INVALID
    assert checked.reason
    assert "GPU" not in checked.reason or "device_id" in str(case)


def written(case: dict[str, Any]) -> bytes:
    """The payload as trt-export writes it, made of what it reads."""
    if case["base"] == "TRTN":
        return build_payload(parse_payload(payload_bytes(case, CONTRACT)))
    base = CONTRACT["bases"][case["base"]]["metadata"]
    metadata = BlobMetadata(
        tuple(BlobBinding(**{**b, "shape": tuple(b["shape"])}) for b in base["io_bindings"]),
        tuple(BlobAlias(**alias) for alias in base.get("aliased_io", [])),
        base["hardware_compatible"],
        base["device_id"],
        json.dumps(base["serialized_metadata"]),
        base["target_platform"],
    )
    return build_blob(metadata, PLAN)


@pytest.mark.parametrize("case", [case for case in GOOD if "written" in case], ids=name)
def test_what_trt_export_writes_is_the_payload_of_the_contract(case: dict[str, Any]) -> None:
    found, expected = written(case), payload_bytes(case, CONTRACT)
    assert len(found) == len(expected)
    assert found[:24] == expected[:24]
    if case["base"] != "TRTN":
        assert found == expected
    else:  # Keys of a JSON object have no order.
        assert parse_payload(found) == parse_payload(expected)


def test_every_field_of_the_headers_is_refused_once_at_least() -> None:
    fields = {(case["base"], case["field"]) for case in BAD}
    assert fields >= {
        ("TRTN", field)
        for field in (
            "magic",
            "version",
            "flags",
            "header size",
            "metadata size",
            "plan size",
            "plan sha256",
        )
    }
    assert fields >= {
        ("TR01", field)
        for field in ("magic", "metadata offset", "metadata size", "engine offset", "engine size")
    }
