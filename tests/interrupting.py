"""A command that gets SIGINT while a chosen module has just been imported."""

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def interrupt_after(module: str, arguments: Sequence[object], folder: Path) -> tuple[int, str, str]:
    """Run Python with these arguments, send SIGINT when it has imported `module`; exit code, stdout and stderr."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    said = []
    sent = False
    for line in process.stderr:
        if not line.startswith("import time:"):
            said.append(line)
        elif not sent and line.rpartition("|")[2].strip() == module:
            process.send_signal(signal.SIGINT)
            sent = True
    out = process.stdout.read()
    process.stdout.close()
    process.stderr.close()
    assert sent, f"{module} was not imported"
    return process.wait(), out, "".join(said)
