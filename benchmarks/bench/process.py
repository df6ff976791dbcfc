"""One measured process: one engine from its plan file to a program that runs, phase by phase, in whatever is installed.

    python -m bench.process ENGINE WARM WORK OUT.json ROUND

``ENGINE`` and ``WARM`` are folders of bench.engines; all is done with the tiny engine in ``WARM`` first, so that
imports and tables are not in the numbers. ``WORK`` is where the program is written. When a phase began and ended is
written by the clock that all processes share: whoever started this one watches its memory meanwhile.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import trt_export
import trt_runtime

PACKAGES = ("torch", "executorch", "onnxruntime", "numpy")
WARM_TURNS = 2
WRITE_TURNS = 4


def anonymous_kilobytes() -> int:
    """RssAnon of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise RuntimeError("no RssAnon in /proc/self/status: Linux 4.5 or newer is needed")


class Recorder:
    """Runs the phases and keeps when they were, what counters rose and what anonymous memory was there."""

    def __init__(self) -> None:
        self.phases: dict[str, list[dict[str, Any]]] = {}

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        """Do ``work`` as the phase ``name``, which may be done several times."""
        # What earlier phases have freed is given back first: else a phase could grow into it unseen.
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        counts, before, start = trt_runtime.stats(), anonymous_kilobytes(), time.monotonic()
        result = work()
        end, after = time.monotonic(), anonymous_kilobytes()
        risen = {
            key: number - counts.get(key, 0)
            for key, number in trt_runtime.stats().items()
            if number != counts.get(key, 0)
        }
        self.phases.setdefault(name, []).append(
            {"start": start, "end": end, "before_kb": before, "after_kb": after, "counts": risen}
        )
        return result


class Calls(torch.nn.Module):
    """A model that is one engine."""

    def __init__(self, engine: trt_runtime.Engine) -> None:
        super().__init__()
        self.engine = engine.script_object

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Call it."""
        outputs: list[torch.Tensor] = torch.ops.trt_runtime.execute_engine(
            list(inputs), self.engine
        )
        return outputs[0]


class Subject:
    """An engine's folder, and inputs that the engine takes."""

    def __init__(self, folder: Path) -> None:
        self.plan = folder / "engine.plan"
        self.record = json.loads((folder / "engine.json").read_text())
        # As trt_export.compile does: the plan's size and digest are taken when the engine is made.
        self.record.pop("plan", None)
        known = folder / "expected.json"
        self.expected = json.loads(known.read_text()) if known.exists() else None
        self.inputs, self.dims = self._inputs()

    @property
    def runs_here(self) -> bool:
        """Whether this is an ONNX Runtime engine and the runtime has a delegate."""
        with self.plan.open("rb") as file:
            return file.read(4) == b"ortp" and hasattr(trt_runtime, "load")

    def _inputs(self) -> tuple[tuple[torch.Tensor, ...], tuple[dict[int, Any], ...]]:
        free: dict[str, Any] = {}
        tensors, dims = [], []
        for item in self.record["inputs"]:
            bounds = zip(item["shape"], item["min"], item["max"], strict=True)
            found = {}
            for axis, (size, low, high) in enumerate(bounds):
                if isinstance(size, str):
                    free.setdefault(size, torch.export.Dim(size, min=low, max=high))
                    found[axis] = free[size]
            dims.append(found)
            tensors.append(torch.ones(item["opt"], dtype=getattr(torch, item["dtype"])))
        return tuple(tensors), tuple(dims)

    def read(self) -> None:
        """Have the plan in the page cache, so that the disk is not measured."""
        buffer = bytearray(1 << 20)
        with self.plan.open("rb", buffering=0) as file:
            while file.readinto(buffer):
                pass


def measure(subject: Subject, work: Path, turn: int) -> dict[str, Any]:
    """All phases with one engine; the program is removed in the end."""
    recorder = Recorder()
    subject.read()
    # What lowering held is gone before the program is loaded.
    written = write(recorder.run, lower(recorder.run, subject), work, turn)
    if subject.runs_here:
        inputs = subject.inputs
        (output,) = recorder.run("load and run", lambda: trt_runtime.load(written).run(inputs))
        expected = torch.tensor(subject.expected).expand(output.shape)
        torch.testing.assert_close(output, expected, rtol=0, atol=0)
    size = written.stat().st_size
    written.unlink()
    return {"phases": recorder.phases, "pte_bytes": size}


def lower(run: Callable[..., Any], subject: Subject) -> Any:
    """From the plan's file to what ExecuTorch writes."""
    make = partial(trt_runtime.Engine.from_plan, subject.plan, subject.record)
    module = Calls(run("make the engine", make))
    export = partial(torch.export.export, module, subject.inputs, dynamic_shapes=(subject.dims,))
    program = run("torch.export", export)
    program = run("run_decompositions", program.run_decompositions)
    edge = run("to_edge", partial(trt_export.to_edge, program))
    return run("to_executorch", edge.to_executorch)


def write(run: Callable[..., Any], manager: Any, work: Path, turn: int) -> Path:
    """Write the program both ways, and copy what was written both ways; return a file with it.

    ``write_to_file`` and ``cp`` leave the bytes to the page cache. ``save`` and ``cp and fsync`` flush them to the
    disk, rename the file and flush its folder. Each writes a new file, when the one before is on the disk. Which
    comes first makes a difference of its own, on a virtual machine a large one: hence a write before all others, and
    several turns, each in another order.
    """
    kept, target = work / "program.pte", work / "again.pte"
    trt_export.save(manager, kept)
    size = kept.stat().st_size
    steps: list[tuple[str, Callable[[], Any]]] = [
        ("write_to_file", partial(_write_plainly, manager, target)),
        ("cp", partial(shutil.copyfile, kept, target)),
        ("save", partial(trt_export.save, manager, target)),
        ("cp and fsync", partial(_copy_synced, kept, target)),
    ]
    for again in range(WRITE_TURNS):
        first = (turn + again) % len(steps)
        for name, step in steps[first:] + steps[:first]:
            run(name, step)
            _sync(target)
            if target.stat().st_size != size:
                raise RuntimeError(f"{name} wrote {target.stat().st_size} bytes instead of {size}")
            target.unlink()
            _sync(work)
    return kept


def _write_plainly(manager: Any, path: Path) -> None:
    with path.open("wb") as file:
        manager.write_to_file(file)


def _copy_synced(source: Path, target: Path) -> None:
    """A copy that lasts, by the same steps as a write of trt_export.files.atomic."""
    draft = target.with_suffix(".tmp")
    shutil.copyfile(
        source, draft
    )  # sendfile: the bytes are copied in the kernel, no blocks are shared
    _sync(draft)
    os.replace(draft, target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def main(engine: Path, warm: Path, work: Path, out: Path, turn: int) -> None:
    """Warm up, measure, and write what was found."""
    warnings.simplefilter("ignore")
    torch.set_grad_enabled(False)
    for number in range(WARM_TURNS):
        measure(Subject(warm), work, number)
    measured = measure(Subject(engine), work, turn)
    found = {
        "versions": {
            "trt-export": trt_export.__version__,
            "trt-runtime": trt_runtime.__version__,
            "python": sys.version.split()[0],
            **{name: version(name) for name in PACKAGES},
        },
        **measured,
    }
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    engine, warm, work, out = map(Path, sys.argv[1:5])
    main(engine, warm, work, out, int(sys.argv[5]))
