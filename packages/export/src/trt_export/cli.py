"""The command `trt-export`: build, info, doctor.

What was asked for goes to stdout, everything else to stderr. The exit codes are in `console.EXIT_CODES`.
"""

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

from trt_export import __version__, console
from trt_export.console import EXIT_CODES, EXIT_NO, printable, say
from trt_export.errors import FallbackWarning
from trt_export.formats import BACKENDS
from trt_export.hints import on_command_line


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); returns the exit code."""
    return console.run(lambda: _run_command(argv))


def _run_command(argv: Sequence[str] | None) -> int:
    arguments = _parser().parse_args(argv)
    with on_command_line():
        code: int = arguments.run(arguments)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = console.Parser(
        prog="trt-export",
        description="Compile PyTorch programs to engines and lower them to ExecuTorch .pte files.",
        epilog=f"example: trt-export build model.pt2 -o model.pte && trt-export info model.pte\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--version",
        action=console.ShowVersion,
        nargs=0,
        const=f"trt-export {__version__}",
        help="show the version and exit",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_build(commands)
    _add_info(commands)
    _add_doctor(commands)
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
    command.add_argument("--json", action="store_true", help="write JSON to stdout")
    return command


def _path(text: str) -> Path:
    if not text:  # Path would make "." of it
        raise argparse.ArgumentTypeError("expected the path of a file, found an empty one")
    if "\0" in text:
        raise argparse.ArgumentTypeError(f"expected the path of a file, found {text!r}")
    return Path(text)


def _add_build(commands: Any) -> None:
    command = _add_command(
        commands,
        "build",
        _build,
        "compile a .pt2 (torch.export.save) and write it as .pte; one with engines in it is lowered as it is",
        "trt-export build model.pt2 -o model.pte --builder tensorrt-rtx"
        " --compute-capability 8.9 --dynamic tokens.1=1:64:256",
    )
    command.add_argument("program", type=_path, metavar="MODEL.pt2", help="the exported program")
    command.add_argument(
        "-o", "--output", type=_path, required=True, metavar="MODEL.pte", help="the file to write"
    )
    command.add_argument(
        "--builder",
        metavar="NAME",
        help="onnxruntime (default; runs on any CPU), tensorrt-rtx (builds without a GPU) or tensorrt",
    )
    command.add_argument(
        "--compute-capability",
        action="append",
        metavar="X.Y",
        help="a GPU to build for (tensorrt-rtx); may be repeated; default: all that it can build for",
    )
    command.add_argument(
        "--dynamic",
        action="append",
        default=[],
        metavar="NAME=MIN:OPT:MAX",
        help="sizes of a dynamic dimension, named INPUT.DIMENSION (tokens.1) or by its symbol (s31);"
        " may be repeated",
    )
    command.add_argument(
        "--save-program",
        type=_path,
        metavar="OUT.pt2",
        help="also write the compiled program, which runs in PyTorch",
    )
    command.add_argument(
        "--format",
        choices=list(BACKENDS),
        help="how plans go into the .pte: named-data (default where the installed trt-runtime runs it) or tr01, for"
        " the delegate of torch-tensorrt and older ones of trt-runtime",
    )
    command.add_argument(
        "--data-file",
        metavar="NAME",
        help="put the plans into NAME.ptd beside the .pte (format named-data)",
    )
    command.add_argument(
        "--trace",
        type=_path,
        metavar="OUT.json",
        help="tell what each phase costs: as a table, and as a file for chrome://tracing or Perfetto",
    )
    command.add_argument(
        "--verify-seconds",
        type=_seconds,
        metavar="N",
        help="how long engines may be compared with PyTorch on more than the example inputs; default: half as"
        " long as compiling takes until then, at least 1; 0: on the example inputs alone",
    )


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number of seconds from 0, found {text!r}")
    return seconds


def _add_info(commands: Any) -> None:
    command = _add_command(
        commands,
        "info",
        _info,
        "tell what is in a .pte or .pt2, without loading an engine",
        "trt-export info model.pte --json",
    )
    command.add_argument("file", type=_path, metavar="FILE", help="a .pte or .pt2")


def _add_doctor(commands: Any) -> None:
    _add_command(
        commands,
        "doctor",
        _doctor,
        "tell what is installed, what works, and what would mend the rest",
        "trt-export doctor",
    )


def _build(arguments: argparse.Namespace) -> int:
    from trt_export.building import BuildOrder, build, parse_dynamic
    from trt_export.progress import Progress

    order = BuildOrder(
        program=arguments.program,
        output=arguments.output,
        builder=arguments.builder,
        compute_capabilities=arguments.compute_capability,
        dynamic=parse_dynamic(arguments.dynamic),
        save_program=arguments.save_program,
        format=arguments.format,
        data_file=arguments.data_file,
        trace=arguments.trace,
        verify=True if arguments.verify_seconds is None else arguments.verify_seconds,
    )
    with _quiet(), Progress(sys.stderr) as progress:
        result = build(order, progress.step)
    _write(arguments, asdict(result), result.lines())
    return 0


def _info(arguments: argparse.Namespace) -> int:
    from trt_export.describing import info_lines
    from trt_export.files.head import check_readable
    from trt_export.inspecting import info

    check_readable(arguments.file)
    found = info(arguments.file)
    _write(arguments, asdict(found), info_lines(found))
    for problem in found.problems:
        say(f"trt-export: error: {found.file}: {problem}")
    return EXIT_NO if found.problems else 0


def _doctor(arguments: argparse.Namespace) -> int:
    from trt_export.doctor import examine

    with _quiet():
        report = examine()
    _write(arguments, asdict(report), report.lines())
    return 0 if report.healthy else EXIT_NO


def _write(arguments: argparse.Namespace, data: dict[str, Any], lines: Sequence[str]) -> None:
    print(json.dumps(data, indent=2) if arguments.json else "\n".join(map(printable, lines)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch and ExecuTorch say about themselves away from a user of the command.

    `python -W ...` and TORCH_LOGS bring it back. What we have to say ourselves is one line on stderr.
    """
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", FallbackWarning)
        show = warnings.showwarning

        def show_ours(
            message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any
        ) -> None:
            if issubclass(category, FallbackWarning):
                say(str(message))
            else:
                show(message, category, *args, **kwargs)

        warnings.showwarning = show_ours
        if "TORCH_LOGS" not in os.environ:
            logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
