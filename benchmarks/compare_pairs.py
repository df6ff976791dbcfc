"""Compare release pairs on the sentence encoder's TensorRT-RTX engine, interleaved, each run in a fresh process.

    python benchmarks/compare_pairs.py FOLDER RUNS NAME=PYTHON NAME=PYTHON ...

``FOLDER`` has the engine (benchmarks/engine_program.py), ``PYTHON`` is the interpreter of an environment that holds
the pair, such as ``.cache/compat/environments/0.1.0-0.1.0/bin/python`` after ``nox -s compat``. Prints a Markdown
table of medians, ranges and counts.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

WORKER = Path(__file__).parent / "engine_program.py"


def main(folder: str, runs: int, pairs: dict[str, str]) -> None:
    """Run every pair ``runs`` times, in turns, and print the table."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in pairs}
    for _ in range(runs):
        for name, python in pairs.items():
            said = subprocess.run(
                [python, str(WORKER), folder], check=True, capture_output=True, text=True
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
    main(sys.argv[1], int(sys.argv[2]), dict(pair.split("=", 1) for pair in sys.argv[3:]))
