"""Programs with engines, and what is looked at in their files."""

from __future__ import annotations

from pathlib import Path

import torch
from torch.export import ExportedProgram

from trt_runtime import Engine

from ..building import Calls


class Several(torch.nn.Module):
    """Engines one after the other, behind a layer with weights of its own."""

    def __init__(self, *engines: Engine) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.calls = torch.nn.ModuleList(Calls(engine) for engine in engines)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        for call in self.calls:
            x = call(x)
        return x


def exported(*engines: Engine) -> ExportedProgram:
    return torch.export.export(Several(*engines), (torch.ones(4, 8),))


def engines_of(program: ExportedProgram) -> list[Engine]:
    return [
        Engine(value)
        for value in program.constants.values()
        if isinstance(value, torch.ScriptObject)
    ]


def same_results(one: ExportedProgram, other: ExportedProgram) -> bool:
    x = torch.randn(4, 8)
    return torch.equal(one.module()(x), other.module()(x))


def mappings_of(path: Path) -> int:
    return sum(str(path) in line for line in Path("/proc/self/maps").read_text().splitlines())


def anonymous() -> int:
    """Bytes of anonymous memory of this process."""
    (line,) = [
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("RssAnon")
    ]
    return int(line.split()[1]) * 1024
