"""What saving and loading a `.pt2` costs, by the size of the plan in it: torch's way beside trt-runtime's.

    python benchmarks/programs.py [--sizes 64 512] [--repeats 5]

Peak memory is VmHWM, which is reset before each step, beyond what was resident then; it holds the pages of files
that were touched. The largest size takes four times its memory.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from accessors import MIB, make_engine

import trt_runtime

Steps = dict[str, Callable[[], Any]]


class Calls(torch.nn.Module):
    """A model that is one engine."""

    def __init__(self, engine: trt_runtime.Engine) -> None:
        super().__init__()
        self.engine = engine.script_object

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Call it."""
        (y,) = torch.ops.trt_runtime.execute_engine([x], self.engine)
        return y


def status(key: str) -> float:
    """A size in /proc/self/status, in MB of 2^20 bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {key} in /proc/self/status: Linux is needed")


def steps_with(program: torch.export.ExportedProgram, folder: Path) -> Steps:
    """Both ways of both, in turns."""
    torchs, ours = folder / "torch.pt2", folder / "ours.pt2"
    return {
        "torch.export.save": lambda: torch.export.save(program, torchs),
        "save_program": lambda: trt_runtime.save_program(program, ours),
        "torch.export.load": lambda: torch.export.load(torchs),
        "load_program": lambda: trt_runtime.load_program(ours),
    }


def measure(step: Callable[[], Any]) -> tuple[float, float, float]:
    """Seconds, MB of anonymous memory that stays with the result, and peak MB meanwhile."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    anonymous, resident = status("RssAnon"), status("VmRSS")
    start = time.perf_counter()
    result = step()
    seconds = time.perf_counter() - start
    peak = status("VmHWM") - resident
    ctypes.CDLL(None).malloc_trim(0)
    stays = status("RssAnon") - anonymous
    del result
    return seconds, stays, peak


def shown(values: list[float], digits: int) -> str:
    """The median, and the range."""
    middle, low, high = (f"{value:.{digits}f}" for value in spread(values))
    return f"{middle} ({low} to {high})"


def spread(values: list[float]) -> tuple[float, float, float]:
    """The median, the least and the largest."""
    return statistics.median(values), min(values), max(values)


def main() -> int:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 512], metavar="MB")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    print("| plan | | seconds | MB that stay | peak MB |\n|---|---|---|---|---|")
    for size in arguments.sizes:
        program = torch.export.export(Calls(make_engine(size * MIB)), (torch.ones(8, 384),))
        with tempfile.TemporaryDirectory() as folder:
            steps = steps_with(program, Path(folder))
            found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in steps}
            for _ in range(arguments.repeats):
                for name, step in steps.items():
                    found[name].append(measure(step))
        del program, steps
        for name, results in found.items():
            seconds, stays, peak = map(list, zip(*results, strict=True))
            columns = shown(seconds, 3), shown(stays, 1), shown(peak, 1)
            print(f"| {size} MB | {name} | {' | '.join(columns)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
