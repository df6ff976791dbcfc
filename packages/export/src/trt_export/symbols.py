"""A way around torch failing on loaded programs with derived dimensions.

`torch.export.load` lists a derived dimension (`2*s0`) where torch otherwise has symbols only, in the program's
range constraints and in its shape environment, and `run_decompositions` then fails with "expected sympy.Symbol".
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram


@contextmanager
def only_symbols(programs: Iterable[ExportedProgram]) -> Iterator[None]:
    """Hide derived dimensions from torch; they follow from their symbols. Afterwards they are back."""
    tables: dict[int, dict[Any, Any]] = {}
    for program in programs:
        found = [program.range_constraints]
        for environment in _environments(program):
            found += [environment.var_to_range, environment.backed_var_to_val]
        tables.update({id(table): table for table in found})
    hidden = [
        (table, {key: value for key, value in table.items() if not isinstance(key, sympy.Symbol)})
        for table in tables.values()
    ]
    for table, entries in hidden:
        for key in entries:
            del table[key]
    try:
        yield
    finally:
        for table, entries in hidden:
            table.update(entries)


def _environments(program: ExportedProgram) -> Iterator[Any]:
    """The shape environments of the program's inputs, one for each symbolic size."""
    for node in program.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        shape: Iterable[object] = value.shape if isinstance(value, torch.Tensor) else ()
        yield from (size.node.shape_env for size in shape if isinstance(size, torch.SymInt))
