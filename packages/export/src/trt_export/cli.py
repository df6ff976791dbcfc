"""The command `trt-export`: build, info, doctor.

What was asked for goes to stdout, everything else to stderr. Exit codes: 0 fine, 1 the answer is no (a file or
program that cannot be used, something missing), 2 wrong usage.
"""

import argparse
import json
import logging
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from trt_export import __version__
from trt_export.errors import (
    FallbackWarning,
    OutputFileError,
    TrtExportError,
    UnknownBuilderError,
    UsageError,
)
from trt_export.formats import BACKENDS

_EXIT_NO = 1
_EXIT_USAGE = 2
_EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these arguments (default: those of the process); returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except (UsageError, OutputFileError, UnknownBuilderError) as error:
        print(f"trt-export: error: {error}", file=sys.stderr)
        return _EXIT_USAGE
    except TrtExportError as error:
        print(f"trt-export: error: {error}", file=sys.stderr)
        return _EXIT_NO
    except KeyboardInterrupt:
        print("trt-export: interrupted; no file was written", file=sys.stderr)
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of stdout has gone; Python would complain once more when it closes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _EXIT_NO
    except OSError as error:
        # A disk, a limit or a closed stream, met where no one could say more: never a traceback.
        place = f" ({error.filename})" if error.filename else ""
        _say(f"trt-export: error: the system refused: {error.strerror or error}{place}")
        return _EXIT_NO


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # stderr may be the stream that failed
        print(text, file=sys.stderr)
    with suppress(OSError, ValueError):
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # else Python tries stdout once more when it ends


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trt-export",
        description="Compile PyTorch programs to engines and lower them to ExecuTorch .pte files.",
        epilog="example: trt-export build model.pt2 -o model.pte && trt-export info model.pte",
    )
    parser.add_argument("--version", action="version", version=f"trt-export {__version__}")
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
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.set_defaults(run=run)
    command.add_argument("--json", action="store_true", help="write JSON to stdout")
    return command


def _add_build(commands: Any) -> None:
    command = _add_command(
        commands,
        "build",
        _build,
        "compile a .pt2 (torch.export.save) and write it as .pte; one with engines in it is lowered as it is",
        "trt-export build model.pt2 -o model.pte --builder tensorrt-rtx"
        " --compute-capability 8.9 --dynamic tokens.1=1:64:256",
    )
    command.add_argument("program", type=Path, metavar="MODEL.pt2", help="the exported program")
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="MODEL.pte", help="the file to write"
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
        type=Path,
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
        type=Path,
        metavar="OUT.json",
        help="tell what each phase costs: as a table, and as a file for chrome://tracing or Perfetto",
    )


def _add_info(commands: Any) -> None:
    command = _add_command(
        commands,
        "info",
        _info,
        "tell what is in a .pte or .pt2, without loading an engine",
        "trt-export info model.pte --json",
    )
    command.add_argument("file", type=Path, metavar="FILE", help="a .pte or .pt2")


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
    )
    with _quiet(), Progress(sys.stderr) as progress:
        result = build(order, progress.step)
    _write(arguments, asdict(result), result.lines())
    return 0


def _info(arguments: argparse.Namespace) -> int:
    from trt_export.describing import info_lines
    from trt_export.inspecting import info

    found = info(arguments.file)
    _write(arguments, asdict(found), info_lines(found))
    for problem in found.problems:
        print(f"trt-export: error: {problem}", file=sys.stderr)
    return _EXIT_NO if found.problems else 0


def _doctor(arguments: argparse.Namespace) -> int:
    from trt_export.doctor import examine

    with _quiet():
        report = examine()
    _write(arguments, asdict(report), report.lines())
    return 0 if report.healthy else _EXIT_NO


def _write(arguments: argparse.Namespace, data: dict[str, Any], lines: Sequence[str]) -> None:
    print(json.dumps(data, indent=2) if arguments.json else "\n".join(map(_printable, lines)))


def _printable(line: str) -> str:
    """Without control characters: names in a file must not steer the terminal that shows them."""
    return "".join(character if character.isprintable() else "\ufffd" for character in line)


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
                print(message, file=sys.stderr)
            else:
                show(message, category, *args, **kwargs)

        warnings.showwarning = show_ours
        if "TORCH_LOGS" not in os.environ:
            logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
