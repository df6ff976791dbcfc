"""Standard streams for a process that has none."""

from __future__ import annotations

import os
import sys


def give_streams() -> None:
    """Give a process whose stdin, stdout or stderr is closed one that goes nowhere.

    ExecuTorch's bindings need `sys.stdout` and `sys.stderr`. The numbers 0 to 2 are taken where they are free: a file
    that is opened later must not get one of them, for native libraries and child processes use them.
    """
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # the lowest that is free
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for the life of the process
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
