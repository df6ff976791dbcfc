"""Progress of long work on a terminal; silent where stderr is none."""

from types import TracebackType
from typing import TextIO

_PHASES = {
    "load": "load the program",
    "decompose": "decompose",
    "partition": "choose what goes into engines",
    "onnx": "make ONNX models",
    "verify": "compare with PyTorch",
    "check": "ask the builder",
    "build": "build engines",
    "splice": "put engines into the program",
    "lower": "lower to ExecuTorch",
    "emit": "emit the program",
    "write": "write",
}


class Progress:
    """Shows the phase at work; use as a context manager and pass `step` on."""

    def __init__(self, stream: TextIO) -> None:
        self._status = None
        if stream.isatty():
            from rich.console import Console

            self._status = Console(file=stream).status("start")

    def __enter__(self) -> "Progress":
        if self._status is not None:
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def step(self, phase: str, done: int, total: int) -> None:
        """Say which phase is at work, and how far it is."""
        if self._status is not None:
            count = f" ({done}/{total})" if total > 1 else ""
            self._status.update(f"{_PHASES.get(phase, phase)}{count}")
