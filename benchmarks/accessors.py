"""What reading an engine costs, by the size of its plan: the native accessors beside the way of trt-runtime 0.1.

    python benchmarks/accessors.py [--sizes 1 64 1024] [--repeats 9] [--json]

The way of 0.1 is `serialize()`, then base64.b64decode of the engine slot. `memfd copy` is what protecting the plan from
those who write to its tensor would cost once for each engine: a copy into memory that can be mapped privately for every
reader. The largest size takes some ten times its memory.
"""

from __future__ import annotations

import argparse
import base64
import json
import mmap
import os
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import trt_runtime

MIB = 2**20
# What takes microseconds is called this often for each measurement.
CALLS = 1000
SLOW_REPEATS = 3


def make_engine(size: int) -> trt_runtime.Engine:
    """An engine over a plan of `size` bytes, none of them zero by chance of the allocator."""
    plan = b"vtrt" + os.urandom(MIB - 4)
    plan = (plan * (size // MIB + 1))[:size]
    record = {
        "name": "benchmark",
        "device": "cuda:0",
        "inputs": [
            {
                "name": "x",
                "dtype": "float32",
                "shape": ["i0d0", 384],
                "min": [1, 384],
                "opt": [8, 384],
                "max": [64, 384],
            }
        ],
        "outputs": [{"name": "y", "dtype": "float32", "shape": ["i0d0", 384]}],
        # A given digest spares the hashing of every plan; no engine is run here.
        "plan": {"format": "tensorrt-rtx", "size": size, "sha256": "0" * 64},
    }
    return trt_runtime.Engine.from_plan(plan, record)


def memfd_copy(plan: memoryview) -> None:
    """Copy a plan into sealed memory and map it privately."""
    file = os.memfd_create("plan")
    try:
        written = 0
        while written < plan.nbytes:
            written += os.write(file, plan[written:])
        mmap.mmap(file, plan.nbytes, access=mmap.ACCESS_COPY).close()
    finally:
        os.close(file)


def seconds(work: Callable[[], Any], calls: int) -> float:
    """Return the seconds of one call, as the mean of `calls`."""
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - begin) / calls


def measure(size: int, repeats: int) -> dict[str, list[float]]:
    """Return the seconds of every repeat by name; the ways take turns, so that noise meets all of them."""
    engine = make_engine(size)
    native: Any = engine.script_object
    plan = engine.plan
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "serialize_metadata_only": (native.serialize_metadata_only, CALLS),
        "serialized_engine_tensor": (native.serialized_engine_tensor, CALLS),
        "serialize": (native.serialize, 1),
        "serialize + decode": (lambda: base64.b64decode(native.serialize()[3]), 1),
        "memfd copy": (lambda: memfd_copy(plan), 1),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for repeat in range(repeats):
        for name, (work, calls) in ways.items():
            # What takes seconds at this size need not be repeated as often as what takes microseconds.
            if calls > 1 or repeat < SLOW_REPEATS or size <= 64 * MIB:
                found[name].append(seconds(work, calls))
    return found


def shown(value: float) -> str:
    """Return a duration with its unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if value * factor >= 1:
            return f"{value * factor:.3g} {unit}"
    return f"{value * 1e6:.3g} µs"


def table(results: dict[int, dict[str, list[float]]]) -> str:
    """Return a Markdown table: the median, and the range of the repeats."""
    sizes = list(results)
    rows = [["", *(f"{size} MB" for size in sizes)]]
    for name in results[sizes[0]]:
        row = [name]
        for size in sizes:
            times = results[size][name]
            median = shown(statistics.median(times))
            row.append(f"{median} ({shown(min(times))} to {shown(max(times))})")
        rows.append(row)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 64, 1024], help="in MB (2**20)")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="all times in seconds")
    arguments = parser.parse_args()
    if min(arguments.sizes) < 1 or arguments.repeats < 1:
        parser.error("expected sizes and repeats of at least 1")
    results: dict[int, dict[str, list[float]]] = {}
    for size in arguments.sizes:
        if sys.stderr.isatty():
            print(f"{size} MB ...", file=sys.stderr)
        results[size] = measure(size * MIB, arguments.repeats)
    if arguments.json:
        header = {"trt_runtime": trt_runtime.__version__, "unit": "s"}
        print(json.dumps({**header, "sizes_mb": results}, indent=1))
    else:
        print(f"trt-runtime {trt_runtime.__version__}, median (range) of one call\n")
        print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
