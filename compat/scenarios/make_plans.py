"""Build the plans that every cell lowers, with the working trees and a real TensorRT-RTX.

One plan per network and builder, written as ``<builder>-<network>.plan`` with its record in ``.json`` beside it, and a
file of inputs and the outputs of eager PyTorch. All cells read the same files, so their payloads can be compared.

    python make_plans.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from networks import BUILDERS, NETWORKS

import trt_export
from trt_runtime import Engine


def main(folder: Path) -> None:
    """Write plans, records and expected results into ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, network in NETWORKS.items():
        torch.manual_seed(0)
        module = network.module().eval().requires_grad_(False)
        program = torch.export.export(
            module, network.inputs(2), dynamic_shapes=network.dynamic_shapes
        )
        for builder in BUILDERS:
            compiled = trt_export.compile(program, builder=builder)
            (held,) = (
                value
                for value in compiled.constants.values()
                if isinstance(value, torch.ScriptObject)
            )
            engine = Engine.from_script_object(held)
            (folder / f"{builder}-{name}.plan").write_bytes(engine.plan)
            (folder / f"{builder}-{name}.json").write_text(json.dumps(engine.info.to_mapping()))
        cases = [(network.inputs(size), module(*network.inputs(size))) for size in network.sizes]
        torch.save(cases, folder / f"{name}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
