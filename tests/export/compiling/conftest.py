"""Programs of the model families, exported and compiled once per session."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch.export import ExportedProgram

from models import FAMILIES, Family
from trt_export.compiling import CompileReport, compile


@dataclass(frozen=True)
class Compiled:
    """A family's module, its exported program, and what `compile` made of that."""

    family: Family
    module: torch.nn.Module
    source: ExportedProgram
    program: ExportedProgram
    report: CompileReport

    @property
    def operators_left(self) -> set[str]:
        return {node.operator for node in self.report.left_in_pytorch}


@functools.cache
def _compiled(family: Family, builder: str) -> Compiled:
    module = family.make()
    source = family.export(module)
    reports: list[CompileReport] = []
    program = compile(source, builder=builder, on_report=reports.append)
    (report,) = reports
    return Compiled(family, module, source, program, report)


@pytest.fixture(scope="session")
def compiled() -> Callable[[Family, str], Compiled]:
    return _compiled


@pytest.fixture(params=FAMILIES, ids=str)
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


def saved_and_loaded(program: ExportedProgram) -> ExportedProgram:
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    return torch.export.load(buffer)
