"""What lowering asks of engines, pass by pass, counted by the runtime."""

import hashlib
import warnings
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import deserialize_pte_binary
from torch.export import export

import trt_export
import trt_runtime
from export.programs import Calls, execute, one_call, one_output_engine, rtx_plan
from trt_export.edge import PASSES, EdgeLowering
from trt_export.errors import MissingCapabilityError
from trt_export.passes.engine_op import is_execute_plan
from trt_export.passes.pipeline import Pipeline
from trt_export.passes.plan_store import find

pytestmark = pytest.mark.usefixtures("unasked")

COUNTS = ("serializations", "deserializations", "base64_encodes", "base64_decodes", "plan_copies")
CAPABILITIES = trt_export.probe(one_output_engine())
PAYLOAD = "2885e3b17d24df82fcb3054e5e790d4f8c39036bc3f300e916e6868ba997ba22"
# What to_edge falls back for with the runtime that is installed here.
MISSING = [
    name
    for name in ("metadata-only", "engine-tensor", "plan-digest", "named-data-delegate")
    if name not in CAPABILITIES
]


def counts() -> dict[str, int]:
    stats = trt_runtime.stats()
    return {name: stats[name] for name in COUNTS}


def two_engines() -> torch.export.ExportedProgram:
    """Two engines, one of them called twice."""

    def forward(self: Any, x: torch.Tensor) -> torch.Tensor:
        first = execute([x], self.first)[0] + execute([x * 2], self.first)[0]
        return execute([first.repeat(1, 2)], self.second)[0]

    held = {"first": one_output_engine(), "second": one_output_engine(rtx_plan(seed=3))}
    return export(Calls(forward, **held), (torch.ones(2, 8),))


def test_the_expensive_reader_is_reached_by_no_pass_if_the_runtime_has_the_accessors() -> None:
    state = EdgeLowering({"one": one_call(), "two": two_engines()})
    seen = {"": counts()}
    Pipeline(PASSES).run(state, on_pass=lambda name: seen.update({name: counts()}))
    spent = {
        name: {key: after[key] - before[key] for key in COUNTS}
        for (name, after), before in zip(list(seen.items())[1:], seen.values(), strict=False)
    }
    assert list(spent) == [item.name for item in PASSES]
    nothing = dict.fromkeys(COUNTS, 0)
    # Without the accessors: once for each of the three engines, by the first pass that needs it.
    whole = {**nothing, "serializations": 3, "base64_encodes": 3}
    expected = dict.fromkeys(spent, nothing)
    if "metadata-only" in MISSING:
        expected["read-records"] = whole
    elif "engine-tensor" in MISSING:
        expected["read-plans"] = whole
    assert spent == expected


def test_to_edge_warns_of_exactly_what_is_missing() -> None:
    program = two_engines()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trt_export.to_edge(program)
        trt_export.to_edge(program)
    ours = [item for item in caught if item.category is trt_export.FallbackWarning]
    assert [str(item.message).split(" (")[0].split()[-1] for item in ours] == MISSING
    assert {item.filename for item in ours} <= {__file__}


def test_strict_mode_refuses_exactly_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRT_EXPORT_STRICT", "1")
    program = two_engines()
    text = str(program)
    before = counts()
    if MISSING:
        with pytest.raises(MissingCapabilityError) as caught:
            trt_export.to_edge(program)
        assert all(name in str(caught.value) for name in MISSING)
    else:
        trt_export.to_edge(program)
    assert counts() == before
    assert str(program) == text


def test_the_plan_that_the_graph_refers_to_is_the_tensor_that_was_read() -> None:
    state = EdgeLowering({"f": two_engines()})
    Pipeline(PASSES[: [item.name for item in PASSES].index("rewrite") + 1]).run(state)
    calls = [node for node in state.prepared["f"].graph.nodes if is_execute_plan(node)]
    assert len(calls) == 3
    found = {id(find(call.args[1]).tensor) for call in calls}
    assert found == {id(plan.tensor) for plan in state.plans.values()}
    assert len(found) == 2


def test_the_payload_is_the_same_whoever_reads_the_engine() -> None:
    """Of trt-export 0.1.0, which had one way to read an engine: later ones change nothing of it."""
    held = one_output_engine(target_platform="linux_x86_64")
    pte = deserialize_pte_binary(
        trt_export.to_edge(one_call(held), format="tr01").to_executorch().buffer
    ).program
    (payload,) = pte.backend_delegate_data
    assert hashlib.sha256(payload.data).hexdigest() == PAYLOAD
