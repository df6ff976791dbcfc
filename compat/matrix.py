"""Turn the facts of the last compat run into MATRIX.md, matrix.json, matrix.svg and the README's table.

    python compat/matrix.py

Exits 1 if a cell FAILED, or if the committed files were out of date (they are then written anew).
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import releases
from environments import DEV, ROOT
from judging import Verdict, judge, judge_loads
from policy import refusal
from run import RESULTS

HERE = Path(__file__).parent
README = ROOT / "README.md"
COLOURS = {"fast": "#2e7d32", "slower": "#ef9a00", "refused": "#757575", "FAILED": "#c62828"}


def main() -> int:
    """Write what is out of date; see the module's docstring."""
    if not RESULTS.exists():
        print(
            f"no results in {RESULTS.relative_to(ROOT)}: run nox -s compat first", file=sys.stderr
        )
        return 2
    facts = json.loads(RESULTS.read_text())
    verdicts = judge(facts["cells"], refusals())
    runtimes = list(dict.fromkeys(verdict.runtime for verdict in verdicts))
    exports = list(dict.fromkeys(verdict.export for verdict in verdicts))
    wrong = [f"{v.runtime} x {v.export}: {v}" for v in verdicts if v.outcome == "FAILED"]
    wrong += judge_loads(facts["loads"], runtimes)
    print(table(verdicts, runtimes, exports))
    for problem in wrong:
        print(f"FAILED {problem}", file=sys.stderr)
    if wrong:
        return 1
    if len(verdicts) < len(runtimes) * len(exports) or DEV not in runtimes or DEV not in exports:
        print("one part of the matrix only: the committed files stay as they are", file=sys.stderr)
        return 0
    pages = documents(verdicts, runtimes, exports)
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        path.write_text(pages[path])
    for path in stale:
        print(f"{path.relative_to(ROOT)} was out of date: commit it", file=sys.stderr)
    return 1 if stale else 0


def refusals() -> dict[tuple[str, str], str]:
    """Return the released pairs that the policy refuses today, with its words."""
    released = releases.read()
    dates = {
        r.version: datetime.date.fromisoformat(r.date)
        for r in released
        if r.package == "trt-runtime"
    }
    today = datetime.datetime.now(datetime.timezone.utc).date()
    found = {}
    for release in (r for r in released if r.package == "trt-export"):
        (minimum,) = re.findall(
            r"^trt-runtime.*>=([\d.]+)", "\n".join(release.requires), re.MULTILINE
        )
        for runtime in dates:
            words = refusal(runtime, release.version, minimum, dates, today)
            if words is not None:
                found[runtime, release.version] = words
    return found


def documents(
    verdicts: Sequence[Verdict], runtimes: Sequence[str], exports: Sequence[str]
) -> dict[Path, str]:
    """Return the content of every generated file."""
    rows = table(verdicts, runtimes, exports)
    readme = re.sub(
        r"(<!-- matrix -->\n).*?(<!-- end of matrix -->)",
        lambda found: f"{found[1]}{rows}\n{found[2]}",
        README.read_text(),
        flags=re.DOTALL,
    )
    cells = [
        {"runtime": v.runtime, "export": v.export, "outcome": v.outcome, "details": list(v.details)}
        for v in verdicts
    ]
    return {
        HERE / "MATRIX.md": _PAGE.format(table=rows),
        HERE / "matrix.json": json.dumps(cells, indent=1) + "\n",
        HERE / "matrix.svg": picture(verdicts, runtimes, exports),
        README: readme,
    }


def table(verdicts: Sequence[Verdict], runtimes: Sequence[str], exports: Sequence[str]) -> str:
    """Return the matrix as a Markdown table: a row per runtime, a column per exporter."""
    cells = {(v.runtime, v.export): str(v).split("\n")[0] for v in verdicts}
    lines = [
        "| trt-runtime \\ trt-export | " + " | ".join(exports) + " |",
        "|---" * (len(exports) + 1) + "|",
    ]
    lines += [
        f"| **{runtime}** | "
        + " | ".join(cells.get((runtime, e), "not run") for e in exports)
        + " |"
        for runtime in runtimes
    ]
    return "\n".join(lines)


def picture(verdicts: Sequence[Verdict], runtimes: Sequence[str], exports: Sequence[str]) -> str:
    """Return the matrix as an SVG of coloured cells."""
    wide, high, left = 190, 44, 130
    svg = ElementTree.Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "width": str(left + wide * len(exports)),
            "height": str(high * (len(runtimes) + 1)),
            "font-family": "sans-serif",
            "font-size": "13",
        },
    )

    def text(x: float, y: float, content: str, fill: str = "#212121") -> None:
        place = {"x": f"{x:g}", "y": f"{y:g}", "fill": fill, "text-anchor": "middle"}
        ElementTree.SubElement(svg, "text", place).text = content

    for column, export in enumerate(exports):
        text(left + wide * (column + 0.5), high * 0.6, f"export {export}")
    for row, runtime in enumerate(runtimes):
        text(left / 2, high * (row + 1.6), f"runtime {runtime}")
    for verdict in verdicts:
        x = left + wide * exports.index(verdict.export)
        y = high * (runtimes.index(verdict.runtime) + 1)
        box = {"x": f"{x + 2}", "y": f"{y + 2}", "width": f"{wide - 4}", "height": f"{high - 4}"}
        ElementTree.SubElement(svg, "rect", box, fill=COLOURS[verdict.outcome], rx="4")
        text(x + wide / 2, y + high * 0.6, str(verdict)[:28], "#ffffff")
    ElementTree.indent(svg)
    return ElementTree.tostring(svg, encoding="unicode") + "\n"


_PAGE = """# Compatibility of trt-runtime and trt-export

Written by `nox -s matrix` from the last run of `nox -s compat`; the rules are in [POLICY.md](POLICY.md).

{table}

![the same as a picture](matrix.svg)

- **fast**: the exporter finds all that it knows to use; no engine is serialized, encoded or copied by either half.
- **slower**: right, and slower. *tracing*: the runtime has no real tracing mode, so torch.export copies every engine
  through base64. *reading*: runtime or exporter has no native accessors, so lowering reads every engine through its
  full record. *hashing*: the runtime keeps no sha256 of a plan, so each lowering reads it once more. *inline*: the
  runtime's delegate reads no named data, so the plan is copied into the payload of its delegate, as exporters before
  0.3.0 always do. An exporter that knows of a capability says once that the runtime lacks it.
- **refused**: the pair is outside the policy and says so.
- **FAILED**: anything else; so is a cell that skipped something.

Each cell is an environment of its own with the wheels of one runtime and one exporter. In it three programs (one
engine; two engines, one of them used twice; dynamic shapes), each with an `onnxruntime` plan and with a real
TensorRT-RTX plan, are exported, decomposed and lowered. Counted natively: serializations, base64 passes, plan copies.
Payloads of the delegates are the same bytes in all cells, warnings are exactly those expected, and every runtime loads
the programs that every other saved. `onnxruntime` engines are also run. `dev` is the working tree.
"""


if __name__ == "__main__":
    sys.exit(main())
