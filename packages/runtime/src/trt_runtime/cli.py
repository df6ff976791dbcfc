"""The command `trt-runtime`: run, check.

What was asked for goes to stdout, everything else to stderr. The exit codes are in `console.EXIT_CODES`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from . import __version__, console
from .arrays import in_order, read_arrays, write_arrays
from .console import EXIT_CODES, EXIT_NO, printable
from .delegate.check import INVALID, CheckedDelegate, check
from .delegate.program import load
from .delegate.pte import check_regular
from .errors import ProgramError, UsageError
from .files import check_output
from .hints import on_command_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); returns the exit code."""
    return console.run(lambda: _run_command(argv))


def _run_command(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    with _quiet(), on_command_line():
        code: int = arguments.run(arguments)
    return code


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch and ExecuTorch's packages say about themselves away from a user of the command.

    `python -W ...` and TORCH_LOGS bring it back.
    """
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        if "TORCH_LOGS" not in os.environ:
            logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="trt-runtime",
        description="Run ExecuTorch .pte files that hold engines.",
        epilog="example: trt-runtime check model.pte && trt-runtime run model.pte --inputs in.npz\n\n"
        f"{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action=console.ShowVersion,
        nargs=0,
        const=f"trt-runtime {__version__}",
        help="show the version and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_command(
        commands,
        "check",
        _check,
        "tell whether the delegates of a .pte run here, without loading an engine",
        "trt-runtime check model.pte",
    )
    return parser


def _add_command(
    commands: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str, example: str
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=f"example: {example}\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    command.add_argument("program", type=_path, metavar="MODEL.pte", help="the program")
    command.add_argument(
        "--data", type=_path, metavar="PLANS.ptd", help="its data file, if it was written with one"
    )
    command.add_argument("--json", action="store_true", help="write JSON to stdout")
    return command


def _path(text: str) -> Path:
    if not text:  # Path would make "." of it
        raise argparse.ArgumentTypeError("expected the path of a file, found an empty one")
    return Path(text)


def _add_run(commands: Any) -> None:
    command = _add_command(
        commands,
        "run",
        _run,
        "run a method of a .pte on arrays from a file",
        "trt-runtime run model.pte --inputs in.npz --output out.npz",
    )
    command.add_argument(
        "--inputs",
        type=_path,
        required=True,
        metavar="IN.npz",
        help="the inputs, one array each: numpy.savez(file, NAME=array, ...) with the names that trt-export info shows,"
        " or numpy.savez(file, array, ...) in their order",
    )
    command.add_argument(
        "--output",
        type=_path,
        metavar="OUT.npz",
        help="where to write the outputs, as output_0, output_1, ...",
    )
    command.add_argument("--method", default="forward", help="default: forward")


def _run(arguments: argparse.Namespace) -> int:
    if arguments.output is not None:
        taken = {"MODEL.pte": arguments.program, "--inputs": arguments.inputs}
        check_output(
            arguments.output, taken | ({"--data": arguments.data} if arguments.data else {})
        )
    _check_readable(arguments)
    arrays = read_arrays(arguments.inputs)
    program = load(arguments.program, arguments.data)
    if arguments.method not in program.methods:
        raise UsageError(
            f"--method: expected one of the methods of {arguments.program}, {', '.join(program.methods)}, found "
            f"{arguments.method!r}; name one of them"
        )
    inputs = in_order(arguments.inputs, arrays, program.signature(arguments.method))
    outputs = program.run(inputs, arguments.method)
    facts = [_describe(index, output) for index, output in enumerate(outputs)]
    if arguments.output is not None:
        write_arrays(arguments.output, outputs)
    lines = [f"{fact['name']}: {fact['text']}" for fact in facts]
    data = {
        "method": arguments.method,
        "outputs": [{k: v for k, v in fact.items() if k != "text"} for fact in facts],
        "written": None if arguments.output is None else str(arguments.output),
    }
    _write(arguments, data, [*lines, *([f"wrote {arguments.output}"] if arguments.output else [])])
    return 0


def _check_readable(arguments: argparse.Namespace) -> None:
    """Tell files that are missing or cannot be read, which is wrong usage, from those that are damaged."""
    for path in filter(None, (arguments.program, arguments.data)):
        try:
            check_regular(path)
            with path.open("rb"):
                pass
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            reason = error.strerror if isinstance(error, OSError) else error
            raise UsageError(
                f"{path}: expected a file that can be read, found: {reason}; name another one"
            ) from error
        except ProgramError as error:
            raise UsageError(str(error)) from error


def _describe(index: int, output: Any) -> dict[str, Any]:
    """An output for people and for programs: the values are in the file."""
    import torch

    if not isinstance(output, torch.Tensor):
        return {"name": f"output_{index}", "value": output, "text": repr(output)}
    dtype, sizes = str(output.dtype).removeprefix("torch."), list(output.shape)
    shown = output.flatten()[:4].tolist()
    ellipsis = ", ..." if output.numel() > len(shown) else ""
    values = ", ".join(
        f"{value:.6g}" if isinstance(value, float) else str(value) for value in shown
    )
    return {
        "name": f"output_{index}",
        "dtype": dtype,
        "shape": sizes,
        "text": f"{dtype} {sizes}: {values}{ellipsis}",
    }


def _check(arguments: argparse.Namespace) -> int:
    _check_readable(arguments)
    found = check(arguments.program, arguments.data)
    lines = [line for index, delegate in enumerate(found) for line in _lines(index, delegate)]
    _write(
        arguments,
        {"delegates": [asdict(delegate) for delegate in found]},
        lines or [f"{arguments.program}: no delegates; ExecuTorch's own kernels run it"],
    )
    return EXIT_NO if any(delegate.verdict == INVALID for delegate in found) else 0


def _lines(index: int, delegate: CheckedDelegate) -> list[str]:
    lines = [
        f"delegate {index} of method {delegate.method}, {delegate.backend}: {delegate.verdict}"
    ]
    if delegate.reason is not None:
        lines.append(f"  because: {delegate.reason}")
    if delegate.format is not None:
        lines.append(f"  plan: {delegate.format}, {delegate.plan_size} bytes")
        lines.append(f"  executor: {delegate.executor or 'missing'}")
    if delegate.target is not None:
        lines.append(f"  built for: {delegate.target}")
    if delegate.provenance:
        made = ", ".join(f"{key} {_text(value)}" for key, value in delegate.provenance.items())
        lines.append(f"  made with: {made}")
    return lines


def _text(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _write(arguments: argparse.Namespace, data: dict[str, Any], lines: Sequence[str]) -> None:
    print(json.dumps(data, indent=2) if arguments.json else "\n".join(map(printable, lines)))
