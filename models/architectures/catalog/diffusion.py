"""The parts of a diffusion pipeline: the UNet, both sides of the autoencoder, the text encoder.

`diffusers` is imported by the models that need it: the tests do without it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..spec import Model, Sizes, floats, integers
from ._transformers import BATCH, from_config

_BLOCKS = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 4}


class _Tuple(nn.Module):
    """A part of diffusers that returns a tuple instead of its own output class."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, sample: torch.Tensor, timestep: torch.Tensor, encoder_hidden_states: torch.Tensor
    ) -> Any:
        return self.model(sample, timestep, encoder_hidden_states, return_dict=False)


class _Encoder(nn.Module):
    """Image to the mean and the logarithm of the variance of its latents."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.encoder, self.last = model.encoder, model.quant_conv

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        moments: torch.Tensor = self.last(self.encoder(image))
        return moments


class _Decoder(nn.Module):
    """Latents to an image."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.first, self.decoder = model.post_quant_conv, model.decoder

    def forward(self, latents: torch.Tensor) -> torch.Tensor:
        image: torch.Tensor = self.decoder(self.first(latents))
        return image


def _unet() -> nn.Module:
    import diffusers

    return _Tuple(
        diffusers.UNet2DConditionModel(
            sample_size=8,
            cross_attention_dim=16,
            attention_head_dim=4,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            **_BLOCKS,
        )
    ).eval()


def _autoencoder() -> Any:
    import diffusers

    return diffusers.AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        **_BLOCKS,
    ).eval()


def _noise(sizes: Sizes) -> dict[str, torch.Tensor]:
    batch = sizes["batch"]
    return {
        "sample": floats(batch, 4, 8, 8),
        "timestep": integers(1, 1000, batch),
        "encoder_hidden_states": floats(batch, 7, 16, seed=1),
    }


class _WithClass(nn.Module):
    """A transformer of diffusers, conditioned on a class."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, hidden_states: torch.Tensor, timestep: torch.Tensor, class_labels: torch.Tensor
    ) -> Any:
        return self.model(hidden_states, timestep, class_labels, return_dict=False)


def _dit() -> nn.Module:
    import diffusers

    return _WithClass(
        diffusers.DiTTransformer2DModel(
            num_attention_heads=2,
            attention_head_dim=8,
            in_channels=4,
            out_channels=8,
            num_layers=2,
            sample_size=8,
            patch_size=2,
            norm_num_groups=4,
            num_embeds_ada_norm=10,
        )
    ).eval()


_NOISE_DYNAMIC = {
    "sample": {0: "batch"},
    "timestep": {0: "batch"},
    "encoder_hidden_states": {0: "batch"},
}

MODELS = (
    Model(
        "UNet of Stable Diffusion",
        "diffusion",
        _unet,
        _noise,
        _NOISE_DYNAMIC,
        {"batch": BATCH},
    ),
    Model(
        "VAE encoder",
        "diffusion",
        lambda: _Encoder(_autoencoder()),
        lambda sizes: {"image": floats(sizes["batch"], 3, 16, 16)},
        {"image": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "VAE decoder",
        "diffusion",
        lambda: _Decoder(_autoencoder()),
        lambda sizes: {"latents": floats(sizes["batch"], 4, 8, 8)},
        {"latents": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "DiT",
        "diffusion",
        _dit,
        lambda sizes: {
            "hidden_states": floats(sizes["batch"], 4, 8, 8),
            "timestep": integers(1, 1000, sizes["batch"]),
            "class_labels": integers(0, 10, sizes["batch"]),
        },
        {"hidden_states": {0: "batch"}, "timestep": {0: "batch"}, "class_labels": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "CLIP text",
        "diffusion",
        lambda: from_config(
            "CLIPTextModel",
            "CLIPTextConfig",
            vocab_size=99,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            projection_dim=16,
            max_position_embeddings=16,
            eos_token_id=98,
            bos_token_id=1,
            pad_token_id=0,
        ),
        lambda sizes: {"input_ids": integers(3, 99, sizes["batch"], 16)},
        {"input_ids": {0: "batch"}},
        {"batch": BATCH},
    ),
)
