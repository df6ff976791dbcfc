"""What `trt_export.compile` takes, beside `torch.onnx.export(program, dynamo=True)` of the same program.

    python benchmarks/compile_times.py [--models "Llama, 8 layers" BERT] [--rounds 3] [--threads 1] [--verify 0]

One process does all: first both ways on a small program, so that registries, tables and imports are not in the numbers,
then each model `rounds` times both ways in turns. `compile` is called with its defaults, verification included, unless
`--verify` says otherwise. Memory is anonymous memory beyond what was there before the call, its peak, read every 5 ms.

`--threads` is that of PyTorch's operators, which verification runs. They wait for each other actively: where other
programs use the cores, more than one thread may take twenty times as long, and measures only that. The second ratio is
that of CPU seconds, which other programs disturb less.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import logging
import statistics
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from compile_models import MODELS, make
from programs import status
from torch.export import ExportedProgram

import trt_export
from trt_export.compiling import CompileReport


@dataclass
class Measured:
    """Of one model."""

    nodes: int
    weights: float
    """MB of 2^20 bytes."""
    compile: list[float] = field(default_factory=list)
    onnx: list[float] = field(default_factory=list)
    compile_cpu: list[float] = field(default_factory=list)
    onnx_cpu: list[float] = field(default_factory=list)
    peaks: list[float] = field(default_factory=list)
    phases: dict[str, list[float]] = field(default_factory=dict)
    plans: list[int] = field(default_factory=list)
    left: int = 0


def measure(program: ExportedProgram, rounds: int, verify: bool | float) -> Measured:
    """Compile and export in turns."""
    tensors = {id(t): t for t in (*program.state_dict.values(), *program.constants.values())}
    size = sum(t.nbytes for t in tensors.values() if isinstance(t, torch.Tensor))
    found = Measured(len(program.graph.nodes), size / 2**20)
    for number in range(rounds):
        steps: list[Callable[[], None]] = [
            lambda: _compile(program, verify, found),
            lambda: _timed(lambda: _onnx(program), found.onnx, found.onnx_cpu),
        ]
        for step in steps if number % 2 == 0 else steps[::-1]:
            gc.collect()
            step()
    return found


def _compile(program: ExportedProgram, verify: bool | float, found: Measured) -> None:
    reports: list[CompileReport] = []
    with _peak() as peak:
        _timed(
            lambda: trt_export.compile(program, on_report=reports.append, verify=verify),
            found.compile,
            found.compile_cpu,
        )
    found.peaks.append(peak())
    (report,) = reports
    for phase, took in report.seconds.items():
        found.phases.setdefault(phase, []).append(took)
    found.plans = [engine.plan_size for engine in report.engines]
    found.left = len(report.left_in_pytorch)


def _onnx(program: ExportedProgram) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return torch.onnx.export(program, dynamo=True, verbose=False)


def _timed(step: Callable[[], Any], seconds: list[float], cpu_seconds: list[float]) -> None:
    start, start_cpu = time.perf_counter(), time.process_time()
    step()
    cpu_seconds.append(time.process_time() - start_cpu)
    seconds.append(time.perf_counter() - start)


@contextlib.contextmanager
def _peak() -> Iterator[Callable[[], float]]:
    """Watch anonymous memory: MB beyond what was there."""
    before = most = status("RssAnon")
    stop = threading.Event()

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.005):
            most = max(most, status("RssAnon"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield lambda: max(most, status("RssAnon")) - before
    finally:
        stop.set()
        watcher.join()


def shown(values: list[float], digits: int = 1) -> str:
    """Return the median, and the range."""
    least, most = min(values), max(values)
    return f"{statistics.median(values):.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def row(name: str, found: Measured) -> str:
    """Return the line of a table."""
    median = statistics.median
    ratio = median(found.compile) / median(found.onnx)
    cpu_ratio = median(found.compile_cpu) / median(found.onnx_cpu)
    phases = ", ".join(
        f"{phase} {statistics.median(seconds):.1f}" for phase, seconds in found.phases.items()
    )
    memory = max(found.peaks) / found.weights
    cells = (
        name,
        str(found.nodes),
        shown(found.compile),
        shown(found.onnx),
        f"{ratio:.2f}, {cpu_ratio:.2f}",
        phases,
        f"{len(found.plans)}, {sum(found.plans) / 1e6:.2f} MB, {found.left} nodes outside",
        f"{max(found.peaks):.0f} of {found.weights:.0f} ({memory:.1f})",
    )
    return f"| {' | '.join(cells)} |"


HEAD = (
    "model",
    "nodes",
    "compile, s",
    "torch.onnx, s",
    "ratios",
    "phases of compile, s",
    "engines",
    "extra MB, of the weights'",
)


def main() -> int:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS, metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--verify", type=float, help="seconds; the default is that of compile")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(arguments.threads)
    verify = True if arguments.verify is None else arguments.verify
    measure(make("Llama, 2 layers"), 1, verify)
    print(f"| {' | '.join(HEAD)} |\n|{'---|' * len(HEAD)}", flush=True)
    for name in arguments.models:
        print(row(name, measure(make(name), arguments.rounds, verify)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
