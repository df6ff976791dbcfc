"""Measure the models of the catalog and write docs/models.md: `nox -s models`.

    python -m architectures                      all rows; writes the page unless a row is worse than the committed one
    python -m architectures BERT "RT-DETR"       these rows; writes nothing
    python -m architectures --accept "RT-DETR"   these rows; writes them even if they are worse
    python -m architectures --list               names the rows

Exit code 1: a row is worse than the committed one, is new and not right, or has no model any more; 2: wrong usage.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from .catalog import MODELS
from .page import page, read, write
from .processes import measure_all
from .regressions import missing, worse
from .spec import Model

_LIMIT = 600  # several times what the slowest model takes


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; see the module's docstring."""
    parser = _parser()
    options = parser.parse_args(arguments)
    chosen = _choose(parser, options.names)
    if options.list:
        print(json.dumps([model.name for model in chosen]) if options.json else _listed(chosen))
        return 0
    rows = measure_all(chosen, options.limit, options.jobs)
    committed = read()
    problems = [problem for found in rows for problem in worse(committed.get(found["name"]), found)]
    whole = not options.names
    if whole:
        problems += missing(committed, [model.name for model in MODELS])
    print(json.dumps(rows, indent=1) if options.json else page(rows))
    for problem in problems:
        print(problem, file=sys.stderr)
    if options.accept or (whole and not problems):
        committed.update({found["name"]: found for found in rows})
        write([committed[model.name] for model in MODELS if model.name in committed])
    elif problems:
        print("docs/models.md was not written; --accept writes it", file=sys.stderr)
    return 1 if problems and not options.accept else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m architectures",
        description="Measure the models of the catalog and write docs/models.md.",
        epilog='example: python -m architectures BERT "RT-DETR"',
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to measure (default: all)")
    parser.add_argument("--list", action="store_true", help="name the rows and measure nothing")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON")
    parser.add_argument("--accept", action="store_true", help="write rows even if they are worse")
    parser.add_argument(
        "--limit", type=int, default=_LIMIT, metavar="SECONDS", help="time limit of one model"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="models measured at the same time"
    )
    return parser


def _choose(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[Model]:
    known = {model.name: model for model in MODELS}
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(
            f"expected names of rows, found {', '.join(map(repr, unknown))}; --list names them all"
        )
    return [known[name] for name in dict.fromkeys(names)] or list(MODELS)


def _listed(models: Sequence[Model]) -> str:
    return "\n".join(f"{model.name} ({model.family})" for model in models)


if __name__ == "__main__":
    sys.exit(main())
