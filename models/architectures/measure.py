"""Measure one model in this process.

The facts are written before each step, so that a step that ends the process leaves the facts of the steps before it.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

import trt_export
import trt_runtime
from trt_export.compiling import CompileReport

from .comparing import largest_error, require_signal
from .spec import Model, spread

Facts = dict[str, Any]

_LONGEST = 300
"""Characters of an error that the table keeps."""


def measure(model: Model, write: Callable[[Facts], object] = lambda _: None) -> Facts:
    """Return the facts of a model, which are also given to `write` before each step and at the end.

    `facts["failed"]` has the error of each step that raised; steps that need its result are left out.
    `facts["seconds"]` has the steps that worked.
    """
    facts: Facts = {"failed": {}, "seconds": {}}
    steps = _Steps(facts, write)
    with suppress(_StepError):
        module = steps.run("make", lambda: make(model))
        facts["weights"] = sum(
            tensor.numel() * tensor.itemsize for tensor in (*module.parameters(), *module.buffers())
        )
        program = steps.run("export", lambda: export(model, module))
        compiled, report = steps.run("compile", lambda: compile_with(program, "onnxruntime"))
        facts |= described(report)
        facts["plans"] = sum(engine.plan_size for engine in report.engines)
        expected = steps.run("run eagerly", lambda: _expected(model, module))
        with suppress(_StepError):
            facts["error in PyTorch"] = steps.run(
                "run in PyTorch",
                lambda: largest_error(expected, _run_module(model, compiled.module())),
            )
        with suppress(_StepError):
            facts["built with tensorrt-rtx"] = steps.run("tensorrt-rtx", lambda: build_rtx(program))
        with suppress(_StepError), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.pte"
            steps.run("to .pte", lambda: trt_export.save(trt_export.to_edge(compiled), path))
            facts["error in ExecuTorch"] = steps.run(
                "run in ExecuTorch", lambda: largest_error(expected, _run_file(model, path))
            )
    steps.end()
    return facts


class _StepError(Exception):
    """A step has failed, and the facts say so."""


class _Steps:
    """Runs steps and writes down what became of them."""

    def __init__(self, facts: Facts, write: Callable[[Facts], object]) -> None:
        self._facts, self._write = facts, write

    def run(self, name: str, work: Callable[[], Any]) -> Any:
        self._facts["step"] = name
        self._write(self._facts)
        start = time.perf_counter()
        try:
            result = work()
        except Exception as error:  # whatever it is, it is what the row says
            traceback.print_exc()
            self._facts["failed"][name] = _in_one_line(error)
            raise _StepError(name) from None
        self._facts["seconds"][name] = round(time.perf_counter() - start, 2)
        return result

    def end(self) -> None:
        self._facts["step"] = None
        self._write(self._facts)


def _in_one_line(error: BaseException) -> str:
    """Return the first line of an error that says something, without folders of this machine."""
    lines = (line.strip() for line in str(error).splitlines())
    text = next(filter(None, lines), "")
    text = re.sub(r"/\S*/(?=[^/\s]+)", "", text)
    return f"{type(error).__name__}: {text}"[:_LONGEST]


def make(model: Model) -> torch.nn.Module:
    """Make the module of a row, with the same weights every time."""
    torch.manual_seed(0)
    return spread(model.make())


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


def compile_with(
    program: ExportedProgram, builder: str, **options: Any
) -> tuple[ExportedProgram, CompileReport]:
    """Return the compiled program and its report."""
    reports: list[CompileReport] = []
    compiled = trt_export.compile(program, builder=builder, on_report=reports.append, **options)
    return compiled, reports[0]


def described(report: CompileReport) -> Facts:
    """Return the number of engines, and the nodes that stay in PyTorch, as in the table."""
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

    The engines are not run, but the ONNX models that they are built from: on the example inputs alone, since the first
    builder compared them on more.
    """
    try:
        _, report = compile_with(program, "tensorrt-rtx", verify=0)
    except trt_export.TrtExportError as error:
        return {"engines": 0, "left": [], "refused": _in_one_line(error)}
    return described(report)


def _expected(model: Model, module: torch.nn.Module) -> list[list[Any]]:
    outputs = _run_module(model, module)
    require_signal(outputs)
    return outputs


def _run_module(model: Model, module: torch.nn.Module) -> list[list[Any]]:
    with torch.no_grad():
        return [pytree.tree_leaves(module(**model.inputs(sizes))) for sizes in model.sizes()]


def _run_file(model: Model, path: Path) -> list[list[Any]]:
    loaded = trt_runtime.load(path)
    # The inputs of a file are flat, in the order of the program's.
    return [loaded.run(pytree.tree_leaves(model.inputs(sizes))) for sizes in model.sizes()]
