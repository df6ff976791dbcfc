"""Run as a program with a release of trt-runtime installed: writes what that release made, for the tests of later ones.

The files of a release are made once, with it, and never again.
"""

from __future__ import annotations

import base64
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

import trt_runtime

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parents[1]))
from runtime.building import RELU_PLAN, Calls, binding, relu_record  # noqa: E402

# What is not said here depends on the machine.
RELU: dict[str, Any] = relu_record(target_platform="linux_x86_64")
EVERY_FIELD: dict[str, Any] = {
    "name": "every field, é",
    "device": "cuda:3",
    "inputs": [
        binding("a", "float16", ["i0d0", 8, "i0d0 * 2"], {0: (1, 4), 2: (2, 8)}),
        binding("b", "int64", [2], {}),
    ],
    "outputs": [binding("c", "float16", ["i0d0 + 1"]), binding("d", "int64", [2])],
    "hardware_compatible": True,
    "target_platform": "linux_aarch64",
    "requires_output_allocator": True,
    "resource_allocation_strategy": "dynamic",
    "requires_native_multidevice": True,
    "aliased_io": [
        {"output": "c", "input": "a", "kind": "kv_cache"},
        {"output": "d", "input": "b", "kind": "in_place"},
    ],
    "provenance": {"builder": "tensorrt-rtx", "versions": [1, 7]},
    "future": {"field": None},
}


def main() -> None:
    prefix = FOLDER / f"runtime-{trt_runtime.__version__}"
    engine = trt_runtime.Engine.from_plan(RELU_PLAN, RELU)
    every_field = trt_runtime.Engine.from_plan(b"vtrt" + bytes(range(61)), EVERY_FIELD)
    records = [
        {
            "plan": base64.b64encode(made.plan).decode(),
            "record": record,
            "serialized": made.serialize(),
        }
        for made, record in ((engine, RELU), (every_field, EVERY_FIELD))
    ]
    Path(f"{prefix}.json").write_text(json.dumps(records, indent=1, ensure_ascii=False) + "\n")
    batch = ({0: torch.export.Dim("batch", min=2, max=16)},)
    program = torch.export.export(Calls(engine), (torch.ones(4, 8),), dynamic_shapes=batch)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torch's own
        for saved, suffix in ((program, ""), (program.run_decompositions(), "-decomposed")):
            for node in saved.graph.nodes:
                node.meta.pop("stack_trace", None)  # names folders of the machine it is made on
            torch.export.save(saved, f"{prefix}{suffix}.pt2")


if __name__ == "__main__":
    main()
