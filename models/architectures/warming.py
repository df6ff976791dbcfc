"""Imports, and does once, what every model needs: importing takes longer than measuring a small model.

Processes forked from one that has imported this module begin with their model. `seconds` in the table are those of a
process that has compiled before.
"""

from __future__ import annotations

import torch
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401  (registers the operators of quantized programs)

from .measure import measure
from .spec import Model, Range, floats

torch.set_num_threads(1)  # no threads before the fork: they would not survive it
measure(
    Model(
        name="Linear",
        family="none",
        make=lambda: torch.nn.Linear(4, 2).eval(),
        inputs=lambda sizes: {"input": floats(sizes["batch"], 4)},
        dynamic={"input": {0: "batch"}},
        ranges={"batch": Range(1, 2, 4)},
    )
)
