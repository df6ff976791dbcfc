"""Runs a process and watches its anonymous memory from outside.

A thread inside would stand still whenever native code holds Python's lock, which is when the large copies are made.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

INTERVAL = 0.002  # seconds
_RSS_ANON = re.compile(rb"RssAnon:\s*(\d+) kB")


class ProcessFailedError(RuntimeError):
    """A measured process ended with an error or ran too long; the message has the end of what it said."""


@dataclass
class Samples:
    """RssAnon of a process over time: seconds of the monotonic clock, and kB."""

    times: list[float] = field(default_factory=list)
    kilobytes: list[int] = field(default_factory=list)

    def between(self, start: float, end: float) -> Sequence[int]:
        """What was seen from ``start`` to ``end``."""
        return self.kilobytes[bisect_left(self.times, start) : bisect_right(self.times, end)]


def run_watched(
    command: Sequence[str | Path], *, folder: Path, environment: dict[str, str], seconds: float
) -> Samples:
    """Run a command to its end.

    Raises:
        ProcessFailedError: it failed, or took more than ``seconds``.
    """
    process = subprocess.Popen(
        list(map(str, command)),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    samples = Samples()
    watcher = threading.Thread(target=_watch, args=(process.pid, samples))
    watcher.start()
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise ProcessFailedError(f"took more than {seconds:.0f} s") from error
    finally:
        process.kill()
        process.communicate()
        watcher.join()
    if process.returncode:
        raise ProcessFailedError(f"ended with {process.returncode}: {said[-3000:].strip()}")
    return samples


def _watch(pid: int, samples: Samples) -> None:
    """Sample until the process is gone; a zombie has no memory."""
    try:
        status = os.open(f"/proc/{pid}/status", os.O_RDONLY)
    except OSError:
        return
    try:
        while True:
            found = _RSS_ANON.search(os.pread(status, 8192, 0))
            if found is None:
                return
            samples.times.append(time.monotonic())
            samples.kilobytes.append(int(found[1]))
            time.sleep(INTERVAL)
    except OSError:
        return
    finally:
        os.close(status)
