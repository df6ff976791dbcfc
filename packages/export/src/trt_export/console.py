"""What a command does with its process: streams that are closed or full, interruptions, exit codes."""

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TextIO

from trt_export import interrupts
from trt_export.errors import OutputFileError, TrtExportError, UnknownBuilderError, UsageError
from trt_export.streams import give_streams

EXIT_NO = 1
EXIT_USAGE = 2
_WRONG_USAGE = (UsageError, OutputFileError, UnknownBuilderError)
EXIT_CODES = """\
exit codes:
  0    fine
  1    the answer is no: a file whose content is damaged or cannot be used, something
       missing; stdout that is full
  2    wrong usage: arguments, or a file that is missing, a directory, or cannot be read or written
  130  interrupted (Ctrl-C)
Errors are text on stderr, also with --json."""


class Parser(argparse.ArgumentParser):
    """argparse's parser, which would drop the error of a stdout that cannot take the help."""

    def print_help(self, file: Any = None) -> None:
        """Print the help; raises OSError."""
        print(self.format_help(), end="", file=file)


class ShowVersion(argparse.Action):
    """argparse's action for `--version`, which would drop the same error."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Print the version, raises OSError; then exit."""
        print(self.const)
        parser.exit()


def run(work: Callable[[], int]) -> int:
    """Do the work of the command and return the exit code; what went wrong is said on stderr.

    Raises:
        SystemExit: argparse has answered already (`--help`, wrong usage).

    """
    give_streams()
    answered: SystemExit | None = None
    try:
        interrupts.begin()
        try:
            code = work()
        except SystemExit as error:
            answered, code = error, int(error.code or 0)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        answered = None
        code = _report(error)
    _settle(sys.stdout)
    _settle(sys.stderr)
    interrupts.end(code)
    if answered is not None:
        raise answered
    return code


def say(text: str) -> None:
    """Write a line to stderr, without control characters; nothing happens where stderr is full."""
    with suppress(OSError, ValueError):
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr)


def printable(line: str) -> str:
    """Replace control characters: names in a file must not steer the terminal that shows them."""
    return "".join(character if character.isprintable() else "\ufffd" for character in line)


def _report(error: BaseException) -> int:
    """Say what went wrong and return the exit code; an error that nobody foresaw is raised again."""
    if isinstance(error, KeyboardInterrupt) or interrupts.seen():
        say(interrupts.MESSAGE)
        return interrupts.EXIT_CODE
    if isinstance(error, BrokenPipeError):  # the reader of stdout has gone, and knows it
        return EXIT_NO
    if isinstance(error, OSError):
        place = f" ({error.filename})" if error.filename else ""
        say(f"trt-export: error: the system refused: {error.strerror or error}{place}")
        return EXIT_NO
    if isinstance(error, MemoryError):
        say(
            f"trt-export: error: expected more memory than this machine has free{': ' if str(error) else ''}{error}"
        )
        return EXIT_NO
    runtime = sys.modules.get(
        "trt_runtime"
    )  # imported by what needs it; its errors are messages too
    if not isinstance(error, (TrtExportError, getattr(runtime, "TrtRuntimeError", TrtExportError))):
        raise error
    say(f"trt-export: error: {error}")
    return EXIT_USAGE if isinstance(error, _WRONG_USAGE) else EXIT_NO


def _settle(stream: TextIO) -> None:
    """Drop what a stream cannot take: Python would try it again at exit, complain, and change the exit code."""
    try:
        stream.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
