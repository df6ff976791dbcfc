"""The cases as whole files: the commands `trt-export info` and `trt-runtime check` give one verdict on each `.pte`.

The states of a `.pt2` (`slots cases` of records.json) have no place in a `.pte`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import to_edge
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir._serialize._program import (
    PTEFile,
    deserialize_pte_binary,
    serialize_pte_binary,
)
from executorch.exir.schema import (
    BackendDelegate,
    BackendDelegateDataReference,
    BackendDelegateInlineData,
    DataLocation,
)

import trt_export.cli
import trt_runtime.cli
from trt_export.formats import BACKENDS, NAMED_DATA, TR01, key_of

from .cases import changed, load, payload_bytes, plan_bytes, text_of

PAYLOADS, RECORDS, PLANS, EXPRESSIONS = map(load, ("payloads", "records", "plans", "expressions"))
PLAN = bytes.fromhex(PAYLOADS["plan"])
MAGICS = {b"ftrt": "tensorrt", b"vtrt": "tensorrt-rtx"}
# What trt-runtime says of an engine that is whole and does not run on this machine, or with its executors.
ELSEWHERE = re.compile(
    r"CUDA device|expected the package tensorrt|expected the device cpu|has no CPU kernels|cannot run it"
)

File = tuple[str, bytes, bytes]  # format, payload, plan in the named data


def reference(record: Any, plan: bytes = PLAN, **more: Any) -> File:
    """A payload that refers to a plan in the named data."""
    metadata = {
        "record": record,
        "inputs": [binding["name"] for binding in RECORDS["mapping"]["inputs"]],
        "outputs": [binding["name"] for binding in RECORDS["mapping"]["outputs"]],
        **more,
    }
    case = {
        "base": "TRTN",
        "metadata": metadata,
        "header": {"plan size": len(plan), "plan sha256": hashlib.sha256(plan).hexdigest()},
    }
    return NAMED_DATA, payload_bytes(case, PAYLOADS), plan


def record_with(text: str, sizes: dict[str, int]) -> dict[str, Any]:
    """A record with an expression as a size of its output, over these free dimensions."""
    found = [re.fullmatch(r"i(\d+)d(\d+)", name) for name in sizes]
    places = [(int(match[1]), int(match[2])) for match in found if match] or [(0, 0)]
    ranks = [
        1 + max([d for i, d in places if i == index] or [0]) for index in range(max(places)[0] + 1)
    ]
    inputs = [
        {
            "name": f"in_{index}",
            "dtype": "float32",
            "shape": [f"i{index}d{dim}" for dim in range(rank)],
            "min": [0] * rank,
            "opt": [1] * rank,
            "max": [2**62] * rank,
        }
        for index, rank in enumerate(ranks)
    ]
    outputs = [{"name": "out_0", "dtype": "float32", "shape": [text]}]
    return {**RECORDS["mapping"], "inputs": inputs, "outputs": outputs}


def files() -> Iterator[Any]:
    """Every case that a `.pte` has a place for: a name, whether it is good, who refuses it, and the file."""
    for case in PAYLOADS["cases"]:
        form = NAMED_DATA if case["base"] == "TRTN" else TR01
        yield "payloads", case, (form, payload_bytes(case, PAYLOADS), PLAN)
    for section in ("metadata cases", "mapping cases"):
        for case in RECORDS[section]:
            record = changed(RECORDS["mapping"], case)
            # A record beside a plan may leave it out; one in a file says which plan it is of.
            bad = {"field": "plan"} if record.get("plan", None) is None else {}
            yield section, {**bad, **case}, reference(record)
    for case in PLANS["cases"]:
        plan = plan_bytes(case, PLANS["base"])
        described = {
            "format": MAGICS.get(plan[:4], "onnxruntime"),
            "size": len(plan),
            "sha256": hashlib.sha256(plan).hexdigest(),
        }
        yield "plans", case, reference({**RECORDS["mapping"], "plan": described}, plan)
    for index, case in enumerate(EXPRESSIONS["cases"]):
        record = record_with(text_of(case["text"]), case["sizes"])
        unknown = {*re.findall(r"i\d+d\d+", text_of(case["text"]))} - {*case["sizes"]}
        bad = {"field": "text"} if case.get("at") == "reading" or unknown else {}
        names = [binding["name"] for binding in record["inputs"]]
        file = reference(record, inputs=names, outputs=["out_0"])
        yield "expressions", {"name": str(index), **bad}, file


CASES = [
    pytest.param(case, file, id=f"{section}: {case['name']}") for section, case, file in files()
]


@pytest.fixture(scope="module")
def empty() -> PTEFile:
    """A program without delegates."""
    edge = to_edge(torch.export.export(torch.nn.ReLU(), (torch.ones(2),)))
    return deserialize_pte_binary(bytes(edge.to_executorch().buffer))


def written(empty: PTEFile, file: File) -> bytes:
    """The program with one delegate."""
    form, payload, plan = file
    data = NamedDataStore()
    if form == NAMED_DATA and plan:
        data.add_named_data(key_of(hashlib.sha256(plan).hexdigest()), plan)
    place = BackendDelegateDataReference(DataLocation.INLINE, 0)
    empty.program.execution_plan[0].delegates = [BackendDelegate(BACKENDS[form], place, [])]
    empty.program.backend_delegate_data = [BackendDelegateInlineData(payload)]
    empty.program.segments = []
    whole = PTEFile(empty.program, None, data.get_named_data_store_output())
    return bytes(serialize_pte_binary(whole, extract_delegate_segments=True))


@pytest.mark.parametrize(("case", "file"), CASES)
def test_both_commands_give_the_verdict_of_the_contract(
    case: dict[str, Any],
    file: File,
    empty: PTEFile,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "model.pte"
    path.write_bytes(written(empty, file))
    described = trt_export.cli.main(["info", str(path)])
    capsys.readouterr()
    checked = trt_runtime.cli.main(["check", "--json", str(path)])
    (delegate,) = json.loads(capsys.readouterr().out)["delegates"]
    if "field" not in case:
        assert described == 0
        assert not checked or ELSEWHERE.search(delegate["reason"]), delegate["reason"]
    else:  # most are refused by both; README.md says which are not, and why
        refused_by = case.get("refused_by", ["trt_export", "trt_runtime"])
        assert described == ("trt_export" in refused_by)
        if "trt_runtime" in refused_by:
            assert checked == 1
            assert not ELSEWHERE.search(delegate["reason"])
        else:
            assert not checked or ELSEWHERE.search(delegate["reason"]), delegate["reason"]
