"""Number formats, control flow and Fourier transforms: what makes a real program hard besides its layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn

from ..spec import Model, Range, Sizes, floats, integers
from ._transformers import (
    BATCH,
    TOKENS_DYNAMIC,
    TOKENS_RANGES,
    VOCABULARY,
    from_config,
    pixels,
    tokens,
    tokens_padded_right,
    without_cache,
)

_SMALL: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}


def _in(dtype: torch.dtype, make: Any) -> nn.Module:
    module = make()
    assert isinstance(module, nn.Module)
    return module.to(dtype)


_BERT = partial(from_config, "BertModel", "BertConfig", **_SMALL)


def _llama() -> nn.Module:
    return without_cache(from_config("LlamaForCausalLM", "LlamaConfig", **_SMALL, pad_token_id=0))


def _text(
    name: str, family: str, make: Any, inputs: Any, tolerance: float, in_tests: bool = False
) -> Model:
    return Model(
        name, family, make, inputs, TOKENS_DYNAMIC, TOKENS_RANGES, tolerance, in_tests=in_tests
    )


class _Spectrogram(nn.Module):
    """Short-time Fourier transform, its magnitude, and a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(32))
        self.layer = nn.Conv1d(17, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert isinstance(self.window, torch.Tensor)
        spectrum = torch.stft(x, 32, hop_length=8, window=self.window, return_complex=True)
        result: torch.Tensor = self.layer(spectrum.abs().log1p())
        return result


class _FourierMixing(nn.Module):
    """The token mixing of FNet: the real part of a Fourier transform over tokens and features."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.layer(x + torch.fft.fft2(x).real)
        return result


class _Branch(nn.Module):
    """Two networks, chosen by the input, and a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        chosen = torch.cond(
            x.sum() > 0, lambda y: self.one(y).relu(), lambda y: self.other(y).tanh(), (x,)
        )
        result: torch.Tensor = self.last(chosen)
        return result


class _Loop(nn.Module):
    """A fixed-point iteration, as often as the input says but at most 8 times, between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.layer, self.last = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        from torch._higher_order_ops.while_loop import while_loop

        def goes_on(step: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
            return step < steps.clamp(max=8)

        def body(step: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return step + 1, torch.tanh(self.layer(value))

        start = (torch.zeros((), dtype=torch.int64), self.first(x).relu())
        end = while_loop(goes_on, body, start)[1]  # type: ignore[no-untyped-call]
        result: torch.Tensor = self.last(end)
        return result


def _x(*shape: int) -> Any:
    return lambda sizes: {"x": floats(sizes.get("batch", 1), *shape)}


def _waves(sizes: Sizes) -> dict[str, torch.Tensor]:
    return {"x": floats(sizes["batch"], 256)}


MODELS = (
    _text(
        "BERT, float16",
        "float16",
        partial(_in, torch.float16, _BERT),
        tokens_padded_right,
        2e-2,
        in_tests=True,
    ),
    _text("Llama, float16", "float16", partial(_in, torch.float16, _llama), tokens, 2e-2),
    _text(
        "BERT, bfloat16", "bfloat16", partial(_in, torch.bfloat16, _BERT), tokens_padded_right, 1e-1
    ),
    _text("Llama, bfloat16", "bfloat16", partial(_in, torch.bfloat16, _llama), tokens, 1e-1),
    Model(
        "ResNet, float16",
        "float16",
        partial(
            _in,
            torch.float16,
            partial(
                from_config,
                "ResNetModel",
                "ResNetConfig",
                embedding_size=8,
                hidden_sizes=[8, 16, 32, 64],
                depths=[1, 1, 1, 1],
            ),
        ),
        lambda sizes: {"pixel_values": pixels(64)(sizes)["pixel_values"].half()},
        {"pixel_values": {0: "batch"}},
        {"batch": BATCH},
        2e-2,
    ),
    Model(
        "STFT and convolution",
        "Fourier",
        lambda: _Spectrogram().eval(),
        _waves,
        {"x": {0: "batch"}},
        {"batch": BATCH},
        1e-3,
        in_tests=True,
    ),
    Model(
        "FNet",
        "Fourier",
        partial(
            from_config,
            "FNetModel",
            "FNetConfig",
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            intermediate_size=64,
        ),
        lambda sizes: {"input_ids": integers(3, VOCABULARY, sizes["batch"], 16)},
        {"input_ids": {0: "batch"}},
        {"batch": BATCH},
        1e-3,
    ),
    Model(
        "Fourier mixing",
        "Fourier",
        lambda: _FourierMixing().eval(),
        _x(8, 16),
        {"x": {0: "batch"}},
        {"batch": BATCH},
        1e-3,
    ),
    Model(
        "cond",
        "control flow",
        lambda: _Branch().eval(),
        _x(16),
        {"x": {0: "batch"}},
        {"batch": Range(1, 2, 4)},
    ),
    Model(
        "while_loop",
        "control flow",
        lambda: _Loop().eval(),
        lambda sizes: {**_x(16)(sizes), "steps": torch.tensor(3)},
        {"x": {0: "batch"}},
        {"batch": BATCH},
    ),
)
