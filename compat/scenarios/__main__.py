"""Run the scenarios in one cell: in an environment that holds one runtime release and one exporter release.

    python scenarios lower --plans DIR --programs DIR --out RESULT.json
    python scenarios load --plans DIR --programs DIR --out RESULT.json

``lower`` exports, decomposes and lowers each program with each kind of plan, counts what that cost, saves the program
below ``--programs`` and runs what it lowered if the runtime can. ``load`` loads, and runs, every program that any cell
saved there. A result holds facts only; what
they must be is decided outside, in one place, for all cells.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from networks import BUILDERS, PROGRAMS

import trt_export
import trt_runtime

Facts = dict[str, Any]


def counted(work: Callable[[], Any]) -> tuple[Any, dict[str, int]]:
    """Do ``work`` and return its result and by how much each counter of the runtime rose; zeros are left out."""
    before = trt_runtime.stats()
    result = work()
    after = trt_runtime.stats()
    return result, {
        name: after[name] - before.get(name, 0)
        for name in after
        if after[name] != before.get(name, 0)
    }


def payloads(manager: Any) -> list[str]:
    """Return the sha256 of each delegate's payload, in the order of the graph."""
    module = manager.exported_program().graph_module
    found = [child for _, child in module.named_modules() if hasattr(child, "processed_bytes")]
    return [hashlib.sha256(bytes(child.processed_bytes)).hexdigest() for child in found]


def lower(plans: Path, programs: Path, builder: str, name: str) -> Facts:
    """Take one program from its module to an ExecuTorch program."""
    module = PROGRAMS[name](plans, builder)
    cases = torch.load(plans / f"{module.expected}.pt") if module.expected else None
    arguments = (torch.linspace(-1, 1, 2 * 8).reshape(2, 8),)
    dynamic = ({0: torch.export.Dim("batch", min=1, max=16)},) if name == "dynamic shapes" else None
    program, export_counts = counted(
        lambda: torch.export.export(module, arguments, dynamic_shapes=dynamic)
    )
    _, decompose_counts = counted(program.run_decompositions)
    if builder == "onnxruntime":
        check_results(program, module, cases)
    edge, lower_counts = counted(lambda: trt_export.to_edge(program))
    pte, emit_counts = counted(lambda: edge.to_executorch().buffer)
    torch.export.save(program, programs / f"{builder}-{name}.pt2")
    (programs / f"{builder}-{name}.pte").write_bytes(pte)
    return {
        "payloads": payloads(edge),
        "executorch": run_pte(programs / f"{builder}-{name}.pte", cases or own_cases(module)),
        "counts": {
            "export": export_counts,
            "decompose": decompose_counts,
            "lower": lower_counts,
            "emit": emit_counts,
        },
    }


def check_results(program: Any, module: torch.nn.Module, cases: Any) -> None:
    """Compare the engines' results with eager PyTorch's, which came with the plans."""
    for arguments, expected in cases or []:
        torch.testing.assert_close(program.module()(*arguments), expected, rtol=1e-5, atol=1e-5)
    if cases is None:  # no eager form: the module itself calls the engines outside of any tracing
        (x,) = (torch.linspace(-1, 1, 16).reshape(2, 8),)
        torch.testing.assert_close(program.module()(x), module(x), rtol=0, atol=0)


def own_cases(module: torch.nn.Module) -> list[Any]:
    """Return a case of a program without an eager form; its result is None if its engines do not run here."""
    x = torch.linspace(-1, 1, 16).reshape(2, 8)
    try:
        return [((x,), module(x))]
    except trt_runtime.ExecutorUnavailableError:
        return [((x,), None)]


def run_pte(path: Path, cases: list[Any]) -> str | None:
    """Run a program in ExecuTorch and say what came of it; None if this runtime has no delegate."""
    if not hasattr(trt_runtime, "load"):
        return None
    program = trt_runtime.load(path)
    for arguments, expected in cases:
        try:
            (result,) = program.run(arguments)
        except trt_runtime.ExecutorUnavailableError as error:
            return f"refused: {error}"
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    return f"ran {len(cases)} cases"


def load(plans: Path, path: Path, builder: str, name: str) -> Facts:
    """Load a program that some runtime saved, and run it if its plan runs here."""
    program = torch.export.load(path)
    expected = PROGRAMS[name].expected
    known = torch.load(plans / f"{expected}.pt") if expected else own_cases(program.module())
    cases = known if builder == "onnxruntime" else []
    for arguments, result in cases:
        torch.testing.assert_close(program.module()(*arguments), result, rtol=1e-5, atol=1e-5)
    return {"ran": len(cases), "executorch": run_pte(path.with_suffix(".pte"), known)}


def attempt(work: Callable[[], Facts]) -> Facts:
    """Do one scenario; an exception is a fact too."""
    try:
        return {"error": None, **work()}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Run what the command line asks for and write the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["lower", "load"])
    for folder in ("--plans", "--programs", "--out"):
        parser.add_argument(folder, type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    facts: Facts = {
        "runtime": trt_runtime.__version__,
        "export": trt_export.__version__,
        "capabilities": sorted(trt_runtime.capabilities()),
        "scenarios": {},
    }
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if arguments.what == "lower":
            arguments.programs.mkdir(parents=True, exist_ok=True)
            for builder in BUILDERS:
                for name in PROGRAMS:
                    facts["scenarios"][f"{builder}: {name}"] = attempt(
                        lambda: lower(arguments.plans, arguments.programs, builder, name)  # noqa: B023
                    )
        else:
            for folder in sorted(arguments.programs.glob("*/*")):
                for builder in BUILDERS:
                    for name in PROGRAMS:
                        path = folder / f"{builder}-{name}.pt2"
                        saver = folder.relative_to(arguments.programs)
                        facts["scenarios"][f"{saver}/{builder}: {name}"] = attempt(
                            lambda: load(arguments.plans, path, builder, name)  # noqa: B023
                        )
    facts["warnings"] = [
        str(w.message) for w in caught if str(w.message).startswith(("trt-export", "trt-runtime"))
    ]
    arguments.out.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
