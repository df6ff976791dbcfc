"""What earlier releases wrote is read for ever, and written again byte for byte: golden/make.py made it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import releases
import torch

from trt_runtime import Engine

# torch copies programs with a class that it has deprecated itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*LeafSpec:FutureWarning")

GOLDEN = Path(__file__).parent / "golden"
PROGRAMS = sorted(GOLDEN.glob("*.pt2"))
RECORDS = [
    pytest.param(entry, id=f"{path.stem}: {entry['record']['name']}")
    for path in sorted(GOLDEN.glob("*.json"))
    for entry in json.loads(path.read_text())
]
RELEASES = [item.version for item in releases.verify() if item.package == "trt-runtime"]


def test_every_release_is_here() -> None:
    """A release leaves its files by golden/make.py, which is run with it before it goes out."""
    names = {path.name for path in GOLDEN.glob("runtime-*")}
    assert names >= {
        f"runtime-{release}{end}"
        for release in RELEASES
        for end in (".json", ".pt2", "-decomposed.pt2")
    }


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_of_a_release_runs_and_decomposes(path) -> None:
    program = torch.export.load(path)
    for module in (program.module(), program.run_decompositions().module()):
        for size in (2, 3, 16):
            x = torch.randn(size, 8)
            assert torch.equal(module(x), (x + 1).relu() * 2)


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_program_of_a_release_is_traced_at_no_cost(path, counted) -> None:
    program = torch.export.load(path)
    with counted() as grown:
        decomposed = program.run_decompositions()
        torch.export.export(decomposed.module(), (torch.ones(4, 8),))
    assert grown == {}


@pytest.mark.parametrize("entry", RECORDS)
def test_an_engine_made_as_then_serializes_to_the_same_bytes(entry: dict[str, Any]) -> None:
    engine = Engine.from_plan(base64.b64decode(entry["plan"]), entry["record"])
    assert engine.serialize() == entry["serialized"]
    assert engine.script_object.serialize() == entry["serialized"]
    ((name, flattened),) = engine.script_object.__obj_flatten__()
    assert (name, flattened) == ("record", entry["serialized"])


@pytest.mark.parametrize("entry", RECORDS)
def test_a_record_of_a_release_is_read_and_written_again(entry: dict[str, Any]) -> None:
    engine = Engine.deserialize(entry["serialized"])
    assert engine.serialize() == entry["serialized"]
    assert bytes(engine.plan) == base64.b64decode(entry["plan"])
    fields = engine.info.to_mapping()
    assert {key: fields[key] for key in entry["record"]} == entry["record"]
