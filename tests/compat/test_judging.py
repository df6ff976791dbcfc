"""A cell of the matrix is fast or slower only if it showed exactly that; anything else is FAILED."""

import copy
from typing import Any

import pytest
from expectations import expected, scenarios
from judging import judge, judge_loads

WARNINGS = {
    capability: f"trt-export: this runtime's engines lack {capability}"
    for capability in ("metadata-only", "engine-tensor", "plan-digest", "named-data-delegate")
}


def outcome(name: str, has_delegate: bool) -> str | None:
    """What running the .pte must come to where there is no GPU."""
    if not has_delegate:
        return None
    return (
        "ran 3 cases" if name.startswith("onnxruntime") else "refused: expected a GPU, found none"
    )


def cell(runtime: str, export: str) -> dict[str, Any]:
    """The facts of a cell in which all is as it must be."""
    promise = expected(runtime, export)
    return {
        "cell": [runtime, export],
        "runtime": runtime,
        "export": export,
        "capabilities": sorted(promise.capabilities),
        "warnings": [WARNINGS[capability] for capability in sorted(promise.warned)],
        "scenarios": {
            name: {
                "error": None,
                "payloads": [f"{promise.format} payload of {name}"],
                "executorch": outcome(name, promise.has_delegate),
                "counts": promise.counts(name.split(": ")[1]),
            }
            for name in scenarios()
        },
    }


@pytest.mark.parametrize(
    ("runtime", "export", "says"),
    [
        ("0.1.0", "0.1.0", "slower: tracing, reading"),
        ("0.2.0", "0.1.0", "slower: reading"),
        ("0.3.0", "0.1.0", "slower: reading"),
        ("0.1.0", "0.2.0", "slower: tracing, reading"),
        ("0.2.0", "0.2.0", "slower: reading"),
        ("0.3.0", "0.2.0", "fast"),
        ("0.4.0", "0.1.0", "slower: reading"),
        ("0.4.0", "0.2.0", "fast"),
        ("0.5.0", "0.1.0", "slower: reading"),
        ("0.5.0", "0.2.0", "fast"),
        ("0.1.0", "0.3.0", "slower: tracing, reading, hashing, inline"),
        ("0.2.0", "0.3.0", "slower: reading, hashing, inline"),
        ("0.3.0", "0.3.0", "slower: hashing, inline"),
        ("0.4.0", "0.3.0", "slower: hashing, inline"),
        ("0.5.0", "0.3.0", "fast"),
        ("0.6.0", "0.1.0", "slower: reading"),
        ("0.4.0", "0.4.0", "slower: hashing, inline"),
        ("0.6.0", "0.4.0", "fast"),
        ("0.10.0", "0.3.0", "fast"),  # newer than the table: what the newest in it does
    ],
)
def test_a_cell_that_shows_what_it_must(runtime: str, export: str, says: str) -> None:
    (verdict,) = judge([cell(runtime, export)])
    assert str(verdict) == says


def one_serialization_too_many(facts: dict[str, Any]) -> None:
    facts["scenarios"]["onnxruntime: one engine"]["counts"]["lower"] = {"serializations": 1}


def a_scenario_left_out(facts: dict[str, Any]) -> None:
    del facts["scenarios"]["tensorrt-rtx: dynamic shapes"]


def an_error(facts: dict[str, Any]) -> None:
    facts["scenarios"]["tensorrt-rtx: dynamic shapes"]["error"] = "ValueError: no"


def a_plan_hashed_twice(facts: dict[str, Any]) -> None:
    facts["scenarios"]["onnxruntime: one engine"]["counts"]["lower"] = {"plan_hashes": 2}


def another_payload(facts: dict[str, Any]) -> None:
    facts["scenarios"]["onnxruntime: one engine"]["payloads"] = ["other bytes"]


def a_warning_too_many(facts: dict[str, Any]) -> None:
    facts["warnings"].append("trt-export: something else")


def a_capability_missing(facts: dict[str, Any]) -> None:
    facts["capabilities"].remove("engine-tensor")


def a_crash(facts: dict[str, Any]) -> None:
    facts["crashed"] = "Segmentation fault"


def not_installed(facts: dict[str, Any]) -> None:
    facts["refused"] = "No solution found"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (one_serialization_too_many, "expected {'export': {}"),
        (a_plan_hashed_twice, "2 plans hashed, expected one for each engine"),
        (a_scenario_left_out, "dynamic shapes: did not run"),
        (an_error, "ValueError: no"),
        (another_payload, "payloads differ"),
        (a_warning_too_many, "unexpected warning: trt-export: something else"),
        (a_capability_missing, "expected at least"),
        (a_crash, "crashed: Segmentation fault"),
        (not_installed, "not installed: No solution found"),
    ],
)
def test_anything_else_is_failed(damage: Any, words: str) -> None:
    good, bad = cell("0.3.0", "0.1.0"), cell("0.3.0", "0.2.0")
    damage(bad)
    first, second = judge([good, bad])
    assert first.outcome == "slower"
    assert second.outcome == "FAILED"
    assert words in str(second)


def test_a_fallback_without_its_warning_is_failed() -> None:
    silent = cell("0.2.0", "0.2.0")
    silent["warnings"] = silent["warnings"][:1]
    (verdict,) = judge([silent])
    assert "0 warnings name metadata-only, expected one" in str(verdict)
    twice = cell("0.2.0", "0.2.0")
    twice["warnings"] *= 2
    (verdict,) = judge([twice])
    assert "2 warnings name engine-tensor, expected one" in str(verdict)


def test_a_refusal_is_one_only_where_the_policy_says_so() -> None:
    words = {("0.1.0", "0.2.0"): "trt-export 0.2.0 needs trt-runtime 0.3.0"}
    refused = {"cell": ["0.1.0", "0.2.0"], "refused": "No solution found"}
    (verdict,) = judge([refused], words)
    assert str(verdict) == "refused: trt-export 0.2.0 needs trt-runtime 0.3.0"
    (verdict,) = judge([cell("0.1.0", "0.2.0")], words)
    assert str(verdict).startswith("FAILED: ran, though the policy says")


@pytest.mark.parametrize(
    ("runtime", "scenario", "found"),
    [
        ("0.4.0", "onnxruntime: one engine", None),  # skipped
        ("0.4.0", "onnxruntime: one engine", "refused: expected a GPU, found none"),
        ("0.4.0", "tensorrt-rtx: one engine", "refused: expected a whole plan"),
        ("0.3.0", "onnxruntime: one engine", "ran 1 cases"),  # a delegate that this release has not
    ],
)
def test_a_pte_must_run_where_the_runtime_can(
    runtime: str, scenario: str, found: str | None
) -> None:
    bad = cell(runtime, "0.2.0")
    bad["scenarios"][scenario]["executorch"] = found
    (verdict,) = judge([bad])
    assert str(verdict) == f"FAILED: {scenario}: in ExecuTorch: {found}"


def test_every_runtime_with_a_delegate_must_run_the_files_of_every_exporter() -> None:
    names = [f"0.1.0/0.1.0/{name}" for name in scenarios()]
    whole = {
        "cell": ["0.4.0", "dev"],
        "runtime": "0.4.0",
        "scenarios": {
            name: {"error": None, "executorch": outcome(name.split("/")[2], True)} for name in names
        },
    }
    assert judge_loads([whole], ["0.1.0"]) == []
    whole["scenarios"][names[0]]["executorch"] = None
    assert judge_loads([whole], ["0.1.0"]) == [
        f"runtime 0.4.0, program {names[0]}, in ExecuTorch: None"
    ]


def test_every_runtime_must_load_every_program_of_every_other() -> None:
    names = [f"{saver}/dev/{name}" for saver in ("0.1.0", "0.2.0") for name in scenarios()]
    whole = {
        "cell": ["0.1.0", "dev"],
        "runtime": "0.1.0",
        "scenarios": {name: {"error": None, "executorch": None} for name in names},
    }
    assert judge_loads([whole], ["0.1.0", "0.2.0"]) == []
    one_missing = copy.deepcopy(whole)
    del one_missing["scenarios"][names[-1]]
    assert judge_loads([one_missing], ["0.1.0", "0.2.0"]) == [
        "runtime 0.1.0 did not load every program of 0.2.0"
    ]
    one_broken = copy.deepcopy(whole)
    one_broken["scenarios"][names[0]]["error"] = "RuntimeError: no"
    assert judge_loads([one_broken], ["0.1.0", "0.2.0"]) == [
        f"runtime 0.1.0, program {names[0]}: RuntimeError: no"
    ]


def test_an_older_runtime_must_refuse_what_it_cannot_read() -> None:
    refused = "RuntimeError: We ran into an error when deserializing the saved file. Please check"

    def loads(found: str | None) -> list[dict[str, Any]]:
        return [
            {
                "cell": [runtime, "dev"],
                "runtime": version,
                "scenarios": {
                    f"dev/dev/{name}": {
                        "error": found if version == "0.3.0" else None,
                        "executorch": outcome(name, version != "0.3.0"),
                    }
                    for name in scenarios()
                },
            }
            for runtime, version in (("0.3.0", "0.3.0"), ("dev", "0.5.0"))
        ]

    assert judge_loads(loads(refused), ["dev"]) == []
    for found, said in ((None, "loaded, expected it"), ("KeyError: 1", "with expected and found")):
        wrong = judge_loads(loads(found), ["dev"])
        assert len(wrong) == len(scenarios())
        assert all(said in text for text in wrong)
