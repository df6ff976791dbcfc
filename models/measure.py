"""Take models all the way, in this process: `python -m models.measure NAME... --out FACTS.json`.

The facts are written before each step, so that a step that ends the process leaves those of the steps before it.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import trt_export
import trt_runtime
from trt_export.compiling import CompileReport

from .catalog import by_name
from .spec import Model, spread

Facts = dict[str, Any]
_SIGNAL = 1e-2
"""Outputs below it count as zero: errors are relative to at least this."""


def main() -> None:
    """Measure the models that the command line names; the file has one object of facts for each that was begun."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found: list[Facts] = []
    for name in arguments.names:
        model = by_name(name)
        facts: Facts = {"name": model.name, "family": model.family}
        found.append(facts)
        measure(model, facts, lambda: arguments.out.write_text(json.dumps(found)))


def measure(model: Model, facts: Facts, write: Callable[[], object]) -> None:
    """Fill `facts`; `facts["failed"]` names the step that raised, with the error."""
    seconds: dict[str, float] = {}
    facts["seconds"] = seconds

    def step(name: str, work: Callable[[], Any]) -> Any:
        facts["step"] = name
        write()
        start = time.perf_counter()
        result = work()
        seconds[name] = round(time.perf_counter() - start, 2)
        return result

    try:
        torch.manual_seed(0)
        module = spread(model.make())
        facts["weights"] = sum(
            tensor.numel() * tensor.itemsize for tensor in (*module.parameters(), *module.buffers())
        )
        program = step("export", lambda: export(model, module))
        reports: list[CompileReport] = []
        compiled = step("compile", lambda: trt_export.compile(program, on_report=reports.append))
        facts |= described(reports[0])
        facts["plans"] = sum(engine.plan_size for engine in reports[0].engines)
        with torch.no_grad():
            expected = [
                pytree.tree_leaves(module(**model.inputs(sizes))) for sizes in model.sizes()
            ]
        _require_signal(expected)
        called = compiled.module()
        facts["error in PyTorch"] = step(
            "run in PyTorch",
            lambda: largest_error(
                expected,
                [pytree.tree_leaves(called(**model.inputs(sizes))) for sizes in model.sizes()],
            ),
        )
        facts["built with tensorrt-rtx"] = step("tensorrt-rtx", lambda: build_rtx(program))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pte"
            step("to .pte", lambda: trt_export.save(trt_export.to_edge(compiled), path))
            loaded = trt_runtime.load(path)
            facts["error in ExecuTorch"] = step(
                "run in ExecuTorch",
                lambda: largest_error(
                    expected,
                    [loaded.run(flat_inputs(model, sizes)) for sizes in model.sizes()],
                ),
            )
        facts["step"] = None
    except Exception as error:  # whatever it is, it is what the row says
        traceback.print_exc()
        text = str(error).strip()
        facts["failed"] = f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"
    write()


def _require_signal(outputs: Sequence[Sequence[Any]]) -> None:
    """Refuse a model of which no number can be wrong.

    Raises:
        ValueError: no floating-point output has a number of at least `_SIGNAL`.
    """
    floating = [
        value
        for values in outputs
        for value in values
        if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel()
    ]
    largest = max((float(value.abs().max()) for value in floating), default=0.0)
    if largest < _SIGNAL:
        raise ValueError(
            f"expected an output of at least {_SIGNAL}, found at most {largest:g}: give the model other weights"
        )


def export(model: Model, module: torch.nn.Module) -> ExportedProgram:
    """Export a model with the dynamic dimensions of its row."""
    dims = {
        name: torch.export.Dim(name, min=span.min, max=span.max)
        for name, span in model.ranges.items()
    }
    inputs = model.inputs(model.sizes()[0])
    dynamic = {
        argument: {number: dims[name] for number, name in model.dynamic.get(argument, {}).items()}
        for argument in inputs
    }
    return torch.export.export(
        module, (), inputs, dynamic_shapes=dynamic if dims else None, strict=model.strict
    )


def described(report: CompileReport) -> Facts:
    """Return how many engines there are and what stays in PyTorch, as in the table."""
    left = Counter((node.operator, node.reason) for node in report.left_in_pytorch)
    return {
        "engines": len(report.engines),
        "left": [
            {"operator": operator, "reason": reason, "count": count}
            for (operator, reason), count in sorted(left.items())
        ],
        "verified": report.verified,
    }


def build_rtx(program: ExportedProgram) -> Facts:
    """Build the program with `tensorrt-rtx`, without a GPU; a refusal is a fact too.

    Verification runs the ONNX model with ONNX Runtime, as it did for `onnxruntime`: the example inputs suffice here.
    """
    reports: list[CompileReport] = []
    try:
        trt_export.compile(program, builder="tensorrt-rtx", verify=0, on_report=reports.append)
    except trt_export.TrtExportError as error:
        return {"engines": 0, "left": [], "refused": str(error).splitlines()[0]}
    return described(reports[0])


def flat_inputs(model: Model, sizes: Mapping[str, int]) -> list[torch.Tensor]:
    """Return the inputs in the order of the program."""
    leaves: list[torch.Tensor] = pytree.tree_leaves(model.inputs(sizes))
    return leaves


def largest_error(expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """Return the largest difference over all sizes, relative to the largest number of the output.

    Raises:
        ValueError: number, shape or dtype of outputs differ, or one has a NaN that the other has not.
    """
    largest = 0.0
    for one, other in zip(expected, found, strict=True):
        tensors = [value for value in one if isinstance(value, torch.Tensor)]
        others = [value for value in other if isinstance(value, torch.Tensor)]
        if [(t.shape, t.dtype) for t in tensors] != [(t.shape, t.dtype) for t in others]:
            raise ValueError(
                f"expected outputs of {[tuple(t.shape) for t in tensors]}, found {[tuple(t.shape) for t in others]}"
            )
        for want, got in zip(tensors, others, strict=True):
            want, got = want.double(), got.double()
            if not torch.equal(want.isnan(), got.isnan()):
                raise ValueError("expected NaN where PyTorch has NaN, found it elsewhere")
            if want.numel():
                scale = max(_SIGNAL, float(want.nan_to_num(0, 0, 0).abs().max()))
                difference = (want - got).nan_to_num(0)
                largest = max(largest, float(difference.abs().max()) / scale)
    return largest


if __name__ == "__main__":
    main()
