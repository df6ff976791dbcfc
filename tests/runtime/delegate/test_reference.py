"""Payloads that refer to a plan in the program's named data: what is read, what is refused, who owns what."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import torch

from trt_runtime import _native
from trt_runtime.delegate.engine import register, verifying

from ..building import RELU_PLAN, binding, model, plan_of, record_of, relu_record
from .c_interface import INCOMPATIBLE, OK, Delegate
from .programs import REFERENCE, refer, reference_of

PAYLOAD, NAMED_DATA = reference_of(RELU_PLAN, relu_record())
(KEY,) = NAMED_DATA


@pytest.fixture(autouse=True)
def engines() -> None:
    register()


def test_it_runs() -> None:
    delegate = Delegate(PAYLOAD, named_data=NAMED_DATA)
    assert delegate.status == OK, delegate.message
    for size in (1, 16, 3):
        x, y = torch.randn(size, 8), torch.zeros(size, 8)
        assert delegate.execute([x, y]) == OK, delegate.message
        assert torch.equal(y, x.relu())
    delegate.close()


def test_payload_and_plan_are_given_back_once_each() -> None:
    delegate = Delegate(PAYLOAD, named_data=NAMED_DATA)
    assert delegate.status == OK
    delegate.close()
    assert delegate.released == 2


def test_the_arguments_have_the_order_of_the_payload() -> None:
    inputs = [binding(name, "float32", [2], {}) for name in ("left", "right")]
    outputs = [binding(name, "float32", [2]) for name in ("difference", "sum")]
    graph = model(
        [("Sub", ["left", "right"], ["difference"]), ("Add", ["left", "right"], ["sum"])],
        inputs,
        outputs,
    )
    payload, named = reference_of(
        plan_of(graph.SerializeToString()),
        record_of(inputs, outputs),
        inputs=["right", "left"],
        outputs=["sum", "difference"],
    )
    delegate = Delegate(payload, named_data=named)
    right, left, total, difference = torch.rand(2), torch.rand(2), torch.zeros(2), torch.zeros(2)
    assert delegate.execute([right, left, total, difference]) == OK, delegate.message
    assert torch.equal(total, left + right)
    assert torch.equal(difference, left - right)
    delegate.close()


def test_a_header_may_grow() -> None:
    metadata = PAYLOAD[REFERENCE.size :]
    fields = list(REFERENCE.unpack(PAYLOAD[: REFERENCE.size]))
    fields[3] += 24
    delegate = Delegate(REFERENCE.pack(*fields) + bytes(24) + metadata, named_data=NAMED_DATA)
    assert delegate.status == OK, delegate.message
    delegate.close()


def test_a_plan_that_is_not_there() -> None:
    delegate = Delegate(PAYLOAD)
    assert (delegate.status, delegate.released) == (INCOMPATIBLE, 1)
    assert KEY in delegate.message
    assert "trt_runtime.load(program, data=file)" in delegate.message


@pytest.mark.parametrize("plan", [b"", RELU_PLAN[:-1], RELU_PLAN + b"\0"])
def test_a_plan_of_another_size(plan: bytes) -> None:
    delegate = Delegate(PAYLOAD, named_data={KEY: plan})
    assert (delegate.status, delegate.released) == (INCOMPATIBLE, 2)
    assert f"expected a plan of {len(RELU_PLAN)} bytes" in delegate.message
    assert f"found {len(plan)}" in delegate.message


def test_a_plan_with_other_bytes() -> None:
    damaged = bytearray(RELU_PLAN)
    damaged[-1] ^= 1
    with verifying(True):
        delegate = Delegate(PAYLOAD, named_data={KEY: bytes(damaged)})
    assert delegate.status == INCOMPATIBLE
    assert "sha256" in delegate.message


def test_a_plan_is_verified_when_asked_for_though_it_runs_already() -> None:
    plan = plan_of(
        model(
            [("Neg", ["in_0"], ["out_0"])],
            [binding("in_0", "float32", [3], {})],
            [binding("out_0", "float32", [3])],
        ).SerializeToString(),
        provenance={"note": "aaaa"},
    )
    record = record_of([binding("in_0", "float32", [3], {})], [binding("out_0", "float32", [3])])
    payload, named = reference_of(plan, record)
    (key,) = named
    damaged = {key: plan.replace(b"aaaa", b"aaab")}  # harmless, so that it runs
    with verifying(False):
        trusting = Delegate(payload, named_data=damaged)
    assert trusting.status == OK, trusting.message
    hashes = _native.stats()["plan_hashes"]
    with verifying(True):
        assert Delegate(payload, named_data=damaged).status == INCOMPATIBLE
        whole = Delegate(payload, named_data=named)
        assert whole.status == OK, whole.message
        again = Delegate(payload, named_data=named)
    assert again.status == OK
    assert _native.stats()["plan_hashes"] - hashes == 2  # not a third time
    for delegate in (trusting, whole, again):
        delegate.close()


def metadata(**changes: Any) -> bytes:
    data = json.loads(PAYLOAD[REFERENCE.size :])
    return json.dumps({**data, **changes}).encode()


GOOD = metadata()
DIGEST = bytes.fromhex(KEY.rpartition("-")[2])


def referring(text: bytes = GOOD, **header: Any) -> bytes:
    return refer(text, **{"plan_size": len(RELU_PLAN), "digest": DIGEST, **header})


def test_what_the_bad_ones_are_made_of_is_good() -> None:
    assert Delegate(referring(), named_data=NAMED_DATA).status == OK


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (referring()[:40], "expected a header of 64 bytes, found 40"),
        (referring(version=2), "found version 2 and flags 0"),
        (referring(version=0), "found version 0"),
        (referring(flags=1), "found version 1 and flags 1"),
        (referring(header_size=63, size=len(GOOD) + 1), "expected metadata behind 64 bytes"),
        (referring(header_size=0), "expected metadata behind 64 bytes"),
        (referring(header_size=2**32 - 1), "expected metadata behind 64 bytes"),
        (referring(size=2**32 - 1), "expected metadata behind 64 bytes"),
        (referring()[:-1], "expected metadata behind 64 bytes"),
        (referring() + b"\0", "expected metadata behind 64 bytes"),
        (referring(b"{"), "expected metadata in JSON"),
        (referring(b"[" * 100_000), "expected metadata in JSON"),
        (referring(b"[]"), "metadata: expected an object, found array"),
        (referring(b"{}"), "expected the field 'record', found none"),
        (referring(metadata(record=[])), "field 'record': expected an object"),
        (referring(metadata(inputs=None)), "field 'inputs': expected a list"),
        (referring(metadata(inputs=[1])), "field 'inputs': expected texts"),
        (referring(metadata(outputs=[])), "expected at least one of the outputs"),
        (referring(metadata(inputs=["in_0", "in_0"])), 'found "in_0" twice'),
        (referring(metadata(inputs=["other"])), "expected the inputs ['in_0'] of the record"),
        (referring(metadata(outputs=["in_0"])), "expected the outputs ['out_0'] of the record"),
        (referring(metadata(record={})), "expected"),
        (referring(plan_size=2**64 - 1), "expected a plan of 18446744073709551615 bytes"),
        (referring(digest=bytes(32)), "trt-plan-sha256-" + "00" * 32),
    ],
)
def test_a_damaged_payload_is_refused(payload: bytes, message: str) -> None:
    delegate = Delegate(payload, named_data=NAMED_DATA)
    assert delegate.status == INCOMPATIBLE
    assert message in delegate.message


def test_a_record_of_another_plan_is_refused() -> None:
    data = json.loads(GOOD)
    data["record"]["plan"]["sha256"] = "0" * 64
    other = referring(json.dumps(data).encode())
    delegate = Delegate(other, named_data=NAMED_DATA)
    assert delegate.status == INCOMPATIBLE
    assert f"expected the plan with the sha256 {'0' * 64} of the record" in delegate.message


def test_a_record_nested_deeper_than_python_reads_is_refused() -> None:
    deep = b"[" * 3000 + b"]" * 3000
    text = GOOD.replace(b'"provenance": {', b'"provenance": {"deep": ' + deep + b", ", 1)
    text = text.replace(b", }", b"}")
    assert text != GOOD
    delegate = Delegate(referring(text), named_data=NAMED_DATA)
    assert delegate.status == INCOMPATIBLE


def test_every_flip_of_a_bit_in_the_header_is_refused_or_harmless() -> None:
    for position in range(8 * struct.calcsize("<4sHHIIQ32s")):
        flipped = bytearray(PAYLOAD)
        flipped[position // 8] ^= 1 << position % 8
        delegate = Delegate(bytes(flipped), named_data=NAMED_DATA)
        assert delegate.status == INCOMPATIBLE, position
        assert delegate.message
