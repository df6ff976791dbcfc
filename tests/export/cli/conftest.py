"""Files for the command line, and the command line."""

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.export import Dim, export

import trt_export
from export.programs import one_call

Command = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    """Run `python -m trt_export` in a process of its own, in the test's folder."""

    def run(*arguments: object) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "trt_export", *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def plain_pt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program without engines: two linear layers, a batch of 1 to 16."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    path = tmp_path_factory.mktemp("plain") / "model.pt2"
    program = export(model, (torch.ones(2, 8),), dynamic_shapes=({0: Dim("batch", min=1, max=16)},))
    torch.export.save(program, path)
    return path


@pytest.fixture(scope="session")
def engine_pt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with an engine in it."""
    path = tmp_path_factory.mktemp("engine") / "model.pt2"
    torch.export.save(one_call(), path)
    return path


@pytest.fixture(scope="session")
def pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, lowered, with its plan inline."""
    path = tmp_path_factory.mktemp("lowered") / "model.pte"
    trt_export.save(trt_export.to_edge(one_call(), format="tr01"), path)
    return path


@pytest.fixture(scope="session")
def named_pte(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, lowered, with its plan in named data."""
    path = tmp_path_factory.mktemp("named") / "model.pte"
    trt_export.save(trt_export.to_edge(one_call(), format="named-data"), path)
    return path


@pytest.fixture
def without_tensorrt(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine where the package tensorrt is not installed."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *more: None if name == "tensorrt" else find(name, *more),
    )
