"""Complex numbers inside of an engine: computed there as pairs, and never across its border."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, fft, nn
from torch.export import Dim, ExportedProgram, export

import trt_export
from export.compiling.whole import compiled, require_whole
from lowering import load


class _Of(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _program(function: Callable[[Tensor], Tensor]) -> tuple[nn.Module, ExportedProgram]:
    torch.manual_seed(0)
    module = _Of(function)
    x = torch.randn(3, 8, 16)
    return module, export(module, (x,), dynamic_shapes=({0: Dim("b", min=1, max=64)},))


def _hann(size: int) -> Tensor:
    return torch.hann_window(size)


def _stft(x: Tensor, size: int, **options: object) -> Tensor:
    found: Tensor = torch.stft(x.flatten(1), size, return_complex=True, **options)  # type: ignore[arg-type]
    return found


def _operator(x: Tensor) -> Tensor:
    """Multiply the lowest frequencies by complex weights, as a Fourier neural operator does."""
    weights = torch.complex(torch.ones(8, 4, 5), torch.arange(160.0).reshape(8, 4, 5))
    return fft.irfft(torch.einsum("bix,iox->box", fft.rfft(x)[:, :, :5], weights), n=16)


def _rotary(x: Tensor) -> Tensor:
    turned = torch.polar(torch.ones(8, 1), torch.arange(8.0)[:, None])
    pairs = torch.view_as_complex(x.reshape(x.shape[0], 8, -1, 2)) * turned
    return torch.view_as_real(pairs).flatten(2)


def _correlation(x: Tensor) -> Tensor:
    product = fft.rfft(x, dim=1) * fft.rfft(x.flip(1), dim=1).conj()
    return fft.irfft(product, n=8, dim=1)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "token mixing": lambda x: fft.fft2(x).real,
    "correlation": _correlation,
    "both dimensions": lambda x: fft.irfft2(fft.rfft2(x, norm="ortho") * 2.5, norm="ortho"),
    "there and back": lambda x: torch.view_as_real(fft.ifft(fft.fft(x, norm="forward"))),
    "odd length": lambda x: fft.irfft(fft.rfft(x[:, :7], dim=1), n=7, dim=1),
    "shifted": lambda x: fft.fftshift(fft.fft(x, dim=1), dim=1).imag,
    "rotary": _rotary,
    "Fourier operator": _operator,
    "spectrogram": lambda x: _stft(
        x, 16, hop_length=4, win_length=12, window=_hann(12), normalized=True
    ).abs(),
    "all frequencies": lambda x: torch.view_as_real(_stft(x, 16, onesided=False, center=False)),
    "inverse spectrogram": lambda x: torch.istft(
        _stft(x, 16, hop_length=4, window=_hann(16)), 16, 4, window=_hann(16)
    ),
    "quotient": lambda x: torch.view_as_real(
        torch.exp(torch.complex(x * 0.1, x)) / torch.complex(x + 3, x)
    ),
    "moved": lambda x: torch.view_as_real(
        torch.cat([torch.complex(x, -x), torch.complex(x, x)], 1)[:, 2:5].sum(1).unsqueeze(-1)
    ),
}


@pytest.mark.filterwarnings("ignore:.*:UserWarning")  # stft without a window
@pytest.mark.parametrize("name", FUNCTIONS)
def test_real_to_real_is_one_engine(name: str) -> None:
    module, program = _program(FUNCTIONS[name])
    found, report = compiled(program)
    require_whole(report)
    for batch in (1, 3, 7):
        x = torch.randn(batch, 8, 16)
        torch.testing.assert_close(found(x), module(x), rtol=1e-4, atol=1e-4)


def test_runs_as_a_pte(tmp_path: Path) -> None:
    module, program = _program(lambda x: _stft(x, 16, window=_hann(16)).abs().log1p())
    run = load(trt_export.compile(program), tmp_path / "spectrum.pte")
    x = torch.randn(3, 8, 16)
    torch.testing.assert_close(run.run([x])[0], module(x), rtol=1e-4, atol=1e-4)


def test_infinite_numbers_made_complex_have_no_imaginary_part() -> None:
    module, program = _program(
        lambda x: torch.view_as_real(torch.where(x > 0, torch.inf, x).to(torch.complex64))
    )
    found, report = compiled(program)
    require_whole(report)
    x = torch.randn(3, 8, 16)
    assert torch.equal(found(x), module(x))


def test_complex_results_stay_outside_with_all_that_makes_them() -> None:
    """Only the real part of the program is an engine; the report says what to return instead."""
    module, program = _program(lambda x: fft.rfft(x.relu() @ torch.ones(16, 16)) * 2)
    found, report = compiled(program)
    assert len(report.engines) == 1
    assert {node.operator for node in report.left_in_pytorch} >= {"aten._fft_r2c.default"}
    assert any("torch.view_as_real(z)" in node.reason for node in report.left_in_pytorch)
    x = torch.randn(3, 8, 16)
    torch.testing.assert_close(found(x), module(x), rtol=1e-4, atol=1e-4)


def test_complex_inputs_stay_outside() -> None:
    class Taking(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return (z * z).abs() @ torch.ones(4, 4)

    z = torch.randn(3, 4, dtype=torch.complex64)
    found, report = compiled(export(Taking(), (z,)))
    assert len(report.engines) == 1
    assert any("complex numbers that are made outside" in n.reason for n in report.left_in_pytorch)
    torch.testing.assert_close(found(z), Taking()(z))
