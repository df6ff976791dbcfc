"""Operators that a library registers after the first compilation of a process are converted as if it had been there."""

from __future__ import annotations

import json
import subprocess
import sys

PROGRAM = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
import trt_export

def left(module):
    reports = []
    program = torch.export.export(module, (torch.randn(2, 4),))
    trt_export.compile(program, on_report=reports.append)
    return len(reports[0].engines), [node.operator for node in reports[0].left_in_pytorch]

first = left(torch.nn.Linear(4, 4))
late = "torch.ao.quantization.fx._decomposed" not in sys.modules
import torch.ao.quantization.fx._decomposed
quantized = torch.ops.quantized_decomposed

class Quantized(torch.nn.Module):
    def forward(self, x):
        whole = quantized.quantize_per_tensor(x.relu(), 0.5, 0, -128, 127, torch.int8)
        return quantized.dequantize_per_tensor(whole, 0.5, 0, -128, 127, torch.int8) * 2

print(json.dumps([late, first, left(Quantized())]))
"""


def test_a_quantized_program_is_whole_after_another_program() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    # Were the library there from the beginning, the test would show nothing.
    assert json.loads(done.stdout.splitlines()[-1]) == [True, [1, []], [1, []]]
