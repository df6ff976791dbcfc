"""Small .pte files, and the command line in this process."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.export import Dim, export

import trt_export
from executorch_noise import expect_noise
from export.programs import one_call, one_output_engine
from trt_runtime.cli import main

Outcome = tuple[int, str, str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_noise(items, Path(__file__).parent)


class Doubler(torch.nn.Module):
    """float32 [batch, 8] to twice its positive part."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2


@pytest.fixture(scope="session")
def doubler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A .pte that runs here: one onnxruntime engine, a batch of 1 to 16."""
    path = tmp_path_factory.mktemp("doubler") / "doubler.pte"
    program = export(
        Doubler(), (torch.ones(2, 8),), dynamic_shapes=({0: Dim("batch", min=1, max=16)},)
    )
    trt_export.save(trt_export.to_edge(trt_export.compile(program)), path)
    return path


@pytest.fixture(scope="session")
def for_a_gpu(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A .pte with an engine for GPUs, of which only the header is real."""
    path = tmp_path_factory.mktemp("gpu") / "gpu.pte"
    trt_export.save(trt_export.to_edge(one_call(one_output_engine(device="cuda:0"))), path)
    return path


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `trt-runtime` with these arguments; returns exit code, stdout and stderr."""

    def run(*arguments: object) -> Outcome:
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as exit:
            code = int(exit.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
