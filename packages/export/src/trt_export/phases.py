"""What each phase of an export costs: time, memory, bytes read and written, and what was done to whole plans."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

# Everything that is counted of plans; each is a touch of all of a plan's bytes.
_PLAN_COUNTERS = (
    "serializations", "deserializations", "base64_encodes", "base64_decodes", "plan_copies", "plan_hashes",
)  # fmt: skip


@dataclass(frozen=True)
class Span:
    """One phase, from `start` on (seconds since the first); a phase may come several times.

    `peak_memory` is the largest resident memory of the process meanwhile, mapped files included (VmHWM of
    /proc/self/status), `read` and `written` what went through system calls (rchar and wchar of /proc/self/io), all in
    bytes; None where the system does not tell. `plans` counts touches of whole plans, by the names of
    `trt_runtime.stats()`.
    """

    phase: str
    start: float
    seconds: float
    peak_memory: int | None
    read: int | None
    written: int | None
    plans: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Mark:
    time: float
    read: int | None
    written: int | None
    plans: dict[str, int]


class Recorder:
    """Keeps the phases of work that tells of each step; `step` is what to give to it."""

    def __init__(self, on_step: Callable[[str, int, int], None] = lambda *step: None) -> None:
        """`on_step` is called with every step too."""
        self._on_step = on_step
        self._spans: list[Span] = []
        self._phase: str | None = None
        self._begin = self._mark = _mark()

    def step(self, phase: str, done: int = 0, total: int = 1) -> None:
        """Say which phase is at work from now on, and how far it is."""
        self._on_step(phase, done, total)
        if phase != self._phase:
            self._end()
            self._phase = phase

    def finish(self) -> tuple[Span, ...]:
        """End the last phase; all phases in their order."""
        self._end()
        self._phase = None
        return tuple(self._spans)

    def _end(self) -> None:
        before, self._mark = self._mark, _mark()
        if self._phase is not None:
            after = self._mark
            self._spans.append(
                Span(
                    self._phase,
                    before.time - self._begin.time,
                    after.time - before.time,
                    _peak_memory(),
                    _difference(after.read, before.read),
                    _difference(after.written, before.written),
                    {
                        name: count - before.plans.get(name, 0)
                        for name, count in after.plans.items()
                        if count != before.plans.get(name, 0)
                    },
                )
            )
        _forget_peak_memory()


def seconds_by_phase(spans: Sequence[Span]) -> dict[str, float]:
    """The seconds of each phase in all, in the order in which the phases began."""
    seconds: dict[str, float] = {}
    for span in spans:
        seconds[span.phase] = seconds.get(span.phase, 0) + span.seconds
    return seconds


def write_trace(spans: Sequence[Span], file: BinaryIO) -> None:
    """Write the phases for a trace viewer, such as chrome://tracing or Perfetto (the Trace Event Format, as JSON)."""
    events = [
        {
            "name": span.phase,
            "cat": "export",
            "ph": "X",
            "ts": round(span.start * 1e6),
            "dur": round(span.seconds * 1e6),
            "pid": os.getpid(),
            "tid": 1,
            "args": {
                "peak_memory_bytes": span.peak_memory,
                "read_bytes": span.read,
                "written_bytes": span.written,
                **span.plans,
            },
        }
        for span in spans
    ]
    file.write(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, indent=1).encode())


def _mark() -> _Mark:
    read, written = _io()
    return _Mark(time.perf_counter(), read, written, _plan_counts())


def _plan_counts() -> dict[str, int]:
    runtime = sys.modules.get("trt_runtime")  # nothing has been counted before it is imported
    if runtime is None:
        return {}
    counts: dict[str, int] = runtime.stats()
    return {name: counts[name] for name in _PLAN_COUNTERS if name in counts}


def _io() -> tuple[int | None, int | None]:
    values = _numbers("/proc/self/io")
    return values.get("rchar"), values.get("wchar")


def _peak_memory() -> int | None:
    kilobytes = _numbers("/proc/self/status").get("VmHWM")
    return None if kilobytes is None else kilobytes * 1024


def _forget_peak_memory() -> None:
    """Have the kernel begin anew with VmHWM; where it does not allow it the peak is that since the process began."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _numbers(path: str) -> dict[str, int]:
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return {}
    fields = (line.replace(":", " ").split() for line in lines)
    return {words[0]: int(words[1]) for words in fields if len(words) > 1 and words[1].isdecimal()}


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before
