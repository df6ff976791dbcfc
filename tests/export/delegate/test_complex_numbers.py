"""Complex numbers: what ExecuTorch runs is right in the file, and `to_edge` refuses the rest, with a way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir import EdgeCompileConfig
from torch import Tensor, fft, nn

import trt_export
import trt_runtime
from trt_export.errors import ComplexNumberError, LoweringError

Function = Callable[[Tensor], Tensor]

X = torch.randn(4, 4)
Y = torch.randn(4, 4)  # torch.export takes one tensor that is given twice for one input
Z = torch.randn(4, 4, dtype=torch.complex64)
real = torch.view_as_real


class Beside(nn.Module):
    """A function, whose complex results are outside of engines, and a product that becomes an engine."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.function(x), y @ y


def compiled(function: Function, x: Tensor) -> torch.export.ExportedProgram:
    return trt_export.compile(torch.export.export(Beside(function), (x, Y)), verify=False)


def _spectrum(x: Tensor, **options: Any) -> Tensor:
    window = torch.hann_window(8)
    return torch.stft(x.reshape(-1), 8, 4, window=window, return_complex=True, **options)


RIGHT: dict[str, tuple[Function, Tensor]] = {
    "rfft": (fft.rfft, X),
    "rfft in float64": (fft.rfft, X.double()),
    "rfft of another size": (lambda x: fft.rfft(x, n=7, norm="ortho"), X),
    "rfft2": (fft.rfft2, X),
    "rfft over a moved dimension": (lambda x: fft.rfft(x.movedim(0, -1)).movedim(-1, 0), X),
    "rfft of a row": (lambda x: fft.rfft(x.reshape(1, 16), dim=0), X),
    "parts": (lambda x: torch.cat([fft.rfft(x).real, fft.rfft(x).imag]), X),
    "irfft": (lambda x: fft.irfft(fft.rfft(x), n=5), X),
    "irfft of an input": (fft.irfft, Z),
    "irfft over a moved dimension": (lambda x: fft.irfft(x.movedim(0, -1)).movedim(-1, 0), Z),
    "irfftn": (lambda x: fft.irfftn(fft.rfftn(x.reshape(2, 4, 2))), X),
    "stft": (lambda x: real(_spectrum(x)), X),
    "istft": (lambda x: torch.istft(_spectrum(x), 8, 4, window=torch.hann_window(8)), X),
    "slices": (lambda x: real(x[1:].mT.unsqueeze(0).squeeze(0).contiguous()), Z),
    "expanded": (lambda x: real(x[:1].expand(3, 4).contiguous()), Z.to(torch.complex128)),
    "float16 to complex64": (lambda x: x.to(torch.complex64), X.half()),
    "float32 to complex128": (lambda x: x.to(torch.complex128), X),
    "float64 to complex64": (lambda x: x.to(torch.complex64), X.double()),
    "complex64 to float32": (lambda x: x.to(torch.float32), Z),
    "complex128 to float64": (lambda x: x.to(torch.float64), Z.to(torch.complex128)),
}


@pytest.mark.filterwarnings("ignore:Casting complex values to real:UserWarning")
@pytest.mark.parametrize("name", RIGHT)
def test_what_executorch_runs_is_right(name: str, tmp_path: Path) -> None:
    function, x = RIGHT[name]
    trt_export.save(trt_export.to_edge(compiled(function, x)), tmp_path / "model.pte")
    program = trt_runtime.load(tmp_path / "model.pte")
    for value in (x, torch.randn_like(x)):
        torch.testing.assert_close(program.run([value, Y])[0], function(value))


WHOLE = r"the whole.*torch\.fft\.rfft"
MOVE = r"last dimension.*movedim\(0, -1\)"
PARTS = r"complex numbers.*torch\.view_as_real"
REFUSED: dict[str, tuple[Function, Tensor, str]] = {
    "fft": (lambda x: fft.fft(x @ torch.ones(4, 4)), X, WHOLE),
    "stft of two sides": (lambda x: _spectrum(x, onesided=False), X, WHOLE),
    "rfft over the first dimension": (lambda x: fft.rfft(x, dim=0), X, MOVE),
    "rfft of a column": (lambda x: fft.rfft(x.reshape(16, 1), dim=0), X, MOVE),
    "irfft over the first dimension": (lambda x: fft.irfft(x, dim=0), Z, MOVE),
    "conj": (lambda x: fft.rfft(x).conj(), X, PARTS),
    "ihfft": (lambda x: fft.ihfft(x), X, PARTS),
    "view_as_complex": (lambda x: torch.view_as_complex(x.reshape(4, 2, 2)), X, PARTS),
    "flip": (lambda x: fft.rfft(x).flip(0), X, PARTS),
    "eq": (lambda x: fft.rfft(x) == fft.rfft(-x), X, PARTS),
    "to complex128": (lambda x: fft.rfft(x).to(torch.complex128), X, "complex64 to .*complex128"),
    "to complex64": (lambda x: fft.rfft(x).to(torch.complex64), X.double(), "complex128 to"),
    "integers": (lambda x: x.to(torch.complex64), X.long(), r"int64 to .*x\.float\(\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_executorch_does_not_run_is_refused(name: str) -> None:
    function, x, words = REFUSED[name]
    program = compiled(function, x)
    with pytest.raises(ComplexNumberError, match=rf"method 'forward', node '\w+' \(.*{words}"):
        trt_export.to_edge(program)


def test_a_kernel_of_the_callers_own_is_allowed() -> None:
    config = EdgeCompileConfig(_core_aten_ops_exception_list=[torch.ops.aten._fft_r2c.default])
    trt_export.to_edge(compiled(fft.fft, X), compile_config=config)


@pytest.mark.parametrize("function", [torch.abs, lambda x: x * 2, lambda x: (x @ x.mT).real])
def test_a_complex_input_is_named(function: Function) -> None:
    with pytest.raises(LoweringError, match=r"input 'x' is complex.*view_as_real\(x\)") as caught:
        trt_export.to_edge(compiled(function, Z))
    assert "leaves" not in str(caught.value)
