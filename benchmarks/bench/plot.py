"""The picture of a comparison: time and extra memory against the size of the engine."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from bench.results import LOWERING, Results, Spread

COLOURS = ("#c62828", "#ef9a00", "#2e7d32")
LEAST_MB = 0.1  # a logarithmic axis has no 0


def draw(
    results: Results,
    about: Mapping[str, Any],
    pairs: Sequence[str],
    sizes: Mapping[str, int],
    path: Path,
) -> None:
    """Write an SVG. Engines of a size are a line, in ``sizes`` by name and MB; others are marks without one."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "bench"  # the same numbers are the same file
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    for pair, colour in zip(pairs, COLOURS, strict=True):

        def seconds(engine: str, pair: str = pair) -> Spread | None:
            return results.seconds(pair, engine, *LOWERING)

        def memory(engine: str, pair: str = pair) -> Spread | None:
            return results.peak(pair, engine)

        for axes, of in ((left, seconds), (right, memory)):
            found = {name: spread for name in sizes if (spread := of(name)) is not None}
            line = [name for name in found if name[0].isdigit()]
            marks = [name for name in found if name not in line]
            _points(axes, found, line, sizes, color=colour, marker="o", label=_label(results, pair))
            _points(axes, found, marks, sizes, color=colour, marker="s", linestyle="none")
    for axes, title, unit in (
        (left, f"time of {' + '.join(LOWERING)}", "seconds"),
        (right, "extra anonymous memory, from engine to file", "MB"),
    ):
        axes.set(
            title=title, xlabel="size of the engine, MB", ylabel=unit, xscale="log", yscale="log"
        )
        axes.set_xticks(sorted(sizes.values()), [str(size) for size in sorted(sizes.values())])
        axes.xaxis.minorticks_off()
        low, high = axes.get_ylim()  # whole decades: else there may be no number at all
        axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
        axes.grid(visible=True, alpha=0.3)
    left.legend()
    machine = about["machine"]
    figure.supxlabel(
        f"Medians and ranges, rounds: {about['rounds']}, {about['date']}; {machine['cores']} cores of {machine['CPU']},"
        f" {machine['memory']}, {machine['kernel']}; {_libraries(results)}.\n"
        "Squares: the encoder's TensorRT-RTX engine; 3072 MB: an opaque one, once.",
        fontsize=8,
    )
    figure.savefig(path, metadata={"Date": None})
    # matplotlib ends lines of paths with a space
    path.write_text("\n".join(line.rstrip() for line in path.read_text().splitlines()) + "\n")


def _label(results: Results, pair: str) -> str:
    """The pair with its versions, if its name does not have them."""
    versions = next((run.versions for run in results.runs if run.pair == pair and run.versions), {})
    own = [versions.get(name, "") for name in ("trt-export", "trt-runtime")]
    return pair if all(version in pair for version in own) else f"{pair}: {', '.join(own)}"


def _libraries(results: Results) -> str:
    versions = next((run.versions for run in results.runs if run.versions), {})
    return ", ".join(f"{name} {versions[name]}" for name in ("torch", "executorch") if versions)


def _points(
    axes: Any,
    found: Mapping[str, Spread],
    names: Sequence[str],
    sizes: Mapping[str, int],
    **style: Any,
) -> None:
    if not names:
        return
    middle, low, high = (
        [
            max(
                LEAST_MB if axes.get_subplotspec().colspan.start else 0, getattr(found[name], field)
            )
            for name in names
        ]
        for field in ("middle", "low", "high")
    )
    errors = [
        [m - w for m, w in zip(middle, low, strict=True)],
        [h - m for h, m in zip(high, middle, strict=True)],
    ]
    axes.errorbar([sizes[name] for name in names], middle, yerr=errors, capsize=3, **style)
