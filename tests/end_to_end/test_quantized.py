"""A network quantized to int8 runs from its .pte as PyTorch computes it, up to the rounding of single steps."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.export import export

import trt_export
import trt_runtime
from trt_export.compiling import CompileReport


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.hidden = nn.Linear(16 * 8 * 8, 32)
        self.out = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.out(self.hidden(self.conv(x).relu().flatten(1)).relu())
        return result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("per_channel", [False, True], ids=["per_tensor", "per_channel"])
def test_a_quantized_network_is_verified_and_right(per_channel: bool, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
            XNNPACKQuantizer,
            get_symmetric_quantization_config,
        )
        from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    torch.manual_seed(0)
    x = torch.randn(16, 3, 8, 8)
    quantizer = XNNPACKQuantizer().set_global(
        get_symmetric_quantization_config(is_per_channel=per_channel)
    )
    prepared = prepare_pt2e(export(Network().eval(), (x,)).module(), quantizer)
    prepared(x)
    quantized = convert_pt2e(prepared)
    reports: list[CompileReport] = []
    program = trt_export.compile(export(quantized, (x,)), on_report=reports.append)
    (report,) = reports
    assert report.verified
    assert not report.left_in_pytorch
    assert any("Quantize" in name or "quantize" in name for name in report.engines[0].operators)
    trt_export.save(trt_export.to_edge(program), tmp_path / "model.pte")
    found, expected = trt_runtime.load(tmp_path / "model.pte").run([x]), quantized(x)
    (result,) = found if isinstance(found, (list, tuple)) else (found,)
    step = expected.unique().diff().min()  # of the output's quantization
    off = ((result - expected) / step).round().abs()
    assert off.max() <= 1
    assert (off > 0).double().mean() < 0.1
