"""The fuzzers begin with the cases of the contract."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from .cases import load, payload_bytes, plan_bytes, slots_of

FUZZ = Path(__file__).parents[1] / "fuzz"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"fuzz_{name}", FUZZ / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_every_fuzzer_begins_with_the_cases_of_the_contract(tmp_path: Path) -> None:
    seeds = module("seeds")
    seeds.main(tmp_path)
    written = {
        folder.name: {file.read_bytes() for file in folder.iterdir()}
        for folder in tmp_path.iterdir()
    }
    assert set(written) == {path.name.removesuffix("_fuzzer.cpp") for path in FUZZ.glob("*.cpp")}
    payloads, plans, records = load("payloads"), load("plans"), load("records")
    for case in payloads["cases"]:
        data = payload_bytes(case, payloads)
        if len(data) <= seeds.LONGEST:
            assert data in written["reference" if case["base"] == "TRTN" else "blob"]
    for case in plans["cases"]:
        data = plan_bytes(case, plans["base"])
        if len(data) <= seeds.LONGEST:
            assert data in written["plan"]
    whole = slots_of(records["slots"])
    assert "\n".join(whole).encode() in written["record"]
    assert whole[3].encode() in written["base64"]
    assert all(len(seeds) >= 5 for seeds in written.values())
