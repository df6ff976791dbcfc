"""Compare release pairs on the sentence encoder's TensorRT-RTX engine, interleaved, each run in a fresh process.

    python benchmarks/compare_pairs.py RUNS NAME=PYTHON NAME=PYTHON ...

``PYTHON`` is the interpreter of an environment that holds the pair, such as
``.cache/compat/environments/0.1.0-0.1.0/bin/python`` after ``nox -s compat``. Prints a Markdown table of medians,
ranges and counts. The engine is built once, by the Python that runs this, which needs what ``nox -s demo`` installs.
"""

from __future__ import annotations

import json
import runpy
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "engine_program.py"
DEMO = Path(__file__).parents[1] / "examples" / "sentence_encoder.py"
ENGINE = Path(__file__).parents[1] / ".cache" / "benchmarks" / "encoder"


def make_engine(folder: Path) -> None:
    """Build the encoder's engine and write it as ``engine.plan`` with its record in ``engine.json``."""
    import torch

    import trt_export
    import trt_runtime

    demo = runpy.run_path(str(DEMO))
    model, tokenizer = demo["load_model"]()
    tokens = tokenizer(demo["SENTENCES"], padding=True, return_tensors="pt")
    with torch.no_grad():
        program = demo["export"](model, tokens["input_ids"], tokens["attention_mask"])
        compiled = trt_export.compile(program, builder="tensorrt-rtx")
    (held,) = (v for v in compiled.constants.values() if isinstance(v, torch.ScriptObject))
    engine = trt_runtime.Engine.from_script_object(held)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "engine.plan").write_bytes(engine.plan)
    # Last: its presence says that the folder is whole.
    (folder / "engine.json").write_text(json.dumps(engine.info.to_mapping()))


def main(runs: int, pairs: dict[str, str]) -> None:
    """Run every pair ``runs`` times, in turns, and print the table."""
    if not (ENGINE / "engine.json").exists():
        make_engine(ENGINE)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in pairs}
    for _ in range(runs):
        for name, python in pairs.items():
            said = subprocess.run(
                [python, str(WORKER), str(ENGINE)], check=True, capture_output=True, text=True
            ).stdout
            found[name].append(json.loads(said.splitlines()[-1]))
    print("| phase | " + " | ".join(f"{name}, s | counts" for name in pairs) + " |")
    print("|---" * (2 * len(pairs) + 1) + "|")
    for phase in next(iter(found.values()))[0]["seconds"]:
        cells = []
        for name in pairs:
            seconds = [run["seconds"][phase] for run in found[name]]
            middle = statistics.median(seconds)
            counts = found[name][0]["counts"][phase]
            cells.append(
                f"{middle:.4f} ({min(seconds):.4f} to {max(seconds):.4f}) | "
                + (", ".join(f"{number} {key}" for key, number in counts.items()) or "0")
            )
        print(f"| {phase} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main(int(sys.argv[1]), dict(pair.split("=", 1) for pair in sys.argv[2:]))
