"""Programs whose weights are more than one ONNX model can hold compile, are saved, and run as a `.pte`."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

import trt_export
import trt_runtime
from lowering import load
from trt_export.builders.onnxruntime import OnnxRuntimeBuilder
from trt_export.plan import read_plan_header


class Model(nn.Module):
    """What reads weights in several ways: tables, products, convolutions, and two layers that share one."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(40, 32)
        self.conv = nn.Conv1d(32, 32, 3, padding=1)
        self.norm = nn.BatchNorm1d(32)
        self.product = nn.Linear(32, 32).half()
        self.register_buffer("steps", torch.arange(900).reshape(30, 30))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.conv(self.table(tokens).transpose(1, 2))).relu().transpose(1, 2)
        x = self.product(x.half()).float() @ self.table.weight.T
        return x + self.steps[0, 0] + self.steps.sum()


def test_a_program_runs_everywhere(tmp_path: Path) -> None:
    module = Model().eval().requires_grad_(False)
    tokens = torch.randint(40, (2, 5))
    length = torch.export.Dim("length", min=2, max=9)
    program = torch.export.export(module, (tokens,), dynamic_shapes=({1: length},))
    reports: list[trt_export.CompileReport] = []
    # The limit of protobuf, as if it were a few kilobytes.
    compiled = trt_export.compile(
        program, builder=OnnxRuntimeBuilder(largest_model=5000), on_report=reports.append
    )
    assert reports[0].verified
    assert not reports[0].left_in_pytorch
    (engine,) = [v for v in compiled.constants.values() if isinstance(v, torch.ScriptObject)]
    header = read_plan_header(trt_runtime.Engine.from_script_object(engine).plan)
    assert header.model_size is not None
    assert header.payload_size is not None
    assert header.model_size < header.payload_size / 2
    trt_runtime.save_program(compiled, tmp_path / "model.pt2")
    saved = trt_runtime.load_program(tmp_path / "model.pt2")
    pte = load(compiled, tmp_path / "model.pte")
    assert trt_export.info(tmp_path / "model.pte") is not None
    for size in (2, 5, 9):
        tokens = torch.randint(40, (2, size))
        expected = module(tokens)
        for found in (compiled.module()(tokens), saved.module()(tokens), pte.run([tokens])[0]):
            torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
