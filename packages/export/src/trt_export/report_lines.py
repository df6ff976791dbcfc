"""What `trt-export build` prints of engines and phases, line by line."""

from collections.abc import Mapping, Sequence
from typing import Any

from trt_export.phases import Span


def verification_lines(name: str, verification: Mapping[str, Any]) -> list[str]:
    """What was compared of an engine, for people."""
    skipped = dict(verification["not_compared"])
    if not verification["compared"]:
        return [f"engine {name}: NOT compared with PyTorch: {skipped.get('anything', 'unknown')}"]
    lines = [
        f"engine {name}: compared with PyTorch on {', '.join(verification['compared'])} ({verification['method']})"
    ]
    lines += [f"engine {name}: not compared on {sample}: {why}" for sample, why in skipped.items()]
    lines += [f"engine {name}: {note}" for note in verification["notes"]]
    if verification["doubt"]:
        lines.append(f"engine {name}: NOT verified: {verification['doubt']}")
    return lines


def phase_lines(spans: Sequence[Span]) -> list[str]:
    """A table of phases for people; empty without phases."""
    if not spans:
        return []
    rows: list[tuple[str, ...]] = [
        ("phase", "seconds", "peak memory", "read", "written", "whole plans")
    ]
    for span in spans:
        sizes = (span.peak_memory, span.read, span.written)
        rows.append(
            (
                span.phase,
                f"{span.seconds:.3f}",
                *("unknown" if size is None else size_text(size) for size in sizes),
                ", ".join(f"{count} {name}" for name, count in span.plans.items()) or "-",
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            [
                row[0].ljust(widths[0]),
                *(cell.rjust(w) for cell, w in zip(row[1:5], widths[1:5], strict=True)),
                row[5],
            ]
        )
        for row in rows
    ]


def size_text(size: int) -> str:
    """A size in bytes for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"
