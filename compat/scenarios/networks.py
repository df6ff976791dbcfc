"""The networks of the scenarios' engines, and the programs that call these engines."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

BUILDERS = ("onnxruntime", "tensorrt-rtx")


@dataclass(frozen=True)
class Network:
    """What one engine computes; ``inputs(batch)`` makes its arguments, ``sizes`` are the batches to run."""

    module: Callable[[], nn.Module]
    dynamic_shapes: Any = None
    sizes: tuple[int, ...] = (2,)

    def inputs(self, batch: int) -> tuple[Tensor, ...]:
        """Return float32 ``[batch, 8]``, the same every time."""
        return (torch.linspace(-1, 1, batch * 8).reshape(batch, 8),)


NETWORKS = {
    "first": Network(lambda: nn.Sequential(nn.Linear(8, 8), nn.Tanh())),
    "second": Network(lambda: nn.Sequential(nn.Linear(8, 8), nn.ReLU())),
    "dynamic": Network(
        lambda: nn.Sequential(nn.Linear(8, 4), nn.Sigmoid()),
        dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=16)},),
        sizes=(1, 5, 16),
    ),
}


def load_engine(plans: Path, builder: str, network: str) -> torch.ScriptObject:
    """Make the engine object of one plan, with whatever runtime is installed."""
    from trt_runtime import Engine

    record = json.loads((plans / f"{builder}-{network}.json").read_text())
    return Engine.from_plan(plans / f"{builder}-{network}.plan", record).script_object


def call(engine: torch.ScriptObject, x: Tensor) -> Tensor:
    """Run an engine with one input and one output."""
    (y,) = torch.ops.trt_runtime.execute_engine([x], engine)
    assert isinstance(y, Tensor)
    return y


class OneEngine(nn.Module):
    """One engine, called once."""

    engines = ("first",)
    expected = "first"

    def __init__(self, plans: Path, builder: str) -> None:
        super().__init__()
        self.engine = load_engine(plans, builder, self.engines[0])

    def forward(self, x: Tensor) -> Tensor:
        """Take and return float32 ``[batch, 8]`` (``[batch, 4]`` from the dynamic one)."""
        return call(self.engine, x)


class DynamicShapes(OneEngine):
    """One engine with a dynamic batch."""

    engines = ("dynamic",)
    expected = "dynamic"


class TwoEngines(nn.Module):
    """Two engines, one of them called twice."""

    engines = ("first", "second")
    expected = None

    def __init__(self, plans: Path, builder: str) -> None:
        super().__init__()
        self.first = load_engine(plans, builder, "first")
        self.second = load_engine(plans, builder, "second")

    def forward(self, x: Tensor) -> Tensor:
        """Take and return float32 ``[batch, 8]``."""
        return call(self.first, call(self.second, call(self.first, x)))


PROGRAMS: dict[str, type[OneEngine] | type[TwoEngines]] = {
    "one engine": OneEngine,
    "two engines, one used twice": TwoEngines,
    "dynamic shapes": DynamicShapes,
}
