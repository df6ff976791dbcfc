"""Speech recognition, speech representation, synthesis."""

from __future__ import annotations

from typing import Any

import torch

from ..spec import Model, Range, Sizes, floats, integers
from ._transformers import BATCH, LENGTH, VOCABULARY, from_config, without_cache

_WAVE: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "conv_dim": [16, 16],
    "conv_stride": [4, 2],
    "conv_kernel": [8, 4],
    "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16,
    "num_conv_pos_embedding_groups": 4,
    "vocab_size": VOCABULARY,
}


def _waves(sizes: Sizes) -> dict[str, torch.Tensor]:
    return {"input_values": floats(sizes["batch"], sizes["samples"])}


def _recognizer(name: str, model: str, config: str, in_tests: bool = False) -> Model:
    return Model(
        name,
        "speech",
        lambda: from_config(model, config, **_WAVE),
        _waves,
        {"input_values": {0: "batch", 1: "samples"}},
        {"batch": BATCH, "samples": Range(400, 640, 1600)},
        in_tests=in_tests,
    )


_WHISPER: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_mel_bins": 16,
    "max_source_positions": 32,
    "max_target_positions": 32,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}


def _spectrum_and_tokens(sizes: Sizes) -> dict[str, torch.Tensor]:
    return {
        "input_features": floats(sizes["batch"], 16, 64),
        "decoder_input_ids": integers(3, VOCABULARY, sizes["batch"], sizes["length"]),
    }


def _dac_decoder() -> torch.nn.Module:
    model = from_config(
        "DacModel",
        "DacConfig",
        encoder_hidden_size=8,
        downsampling_ratios=[2, 4],
        decoder_hidden_size=32,
        upsampling_ratios=[4, 2],
        hidden_size=32,
        n_codebooks=2,
        codebook_size=16,
        codebook_dim=4,
    )
    return model.get_submodule("decoder")


MODELS = (
    Model(
        "Whisper",
        "speech",
        lambda: without_cache(
            from_config("WhisperForConditionalGeneration", "WhisperConfig", **_WHISPER)
        ),
        _spectrum_and_tokens,
        {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "length"}},
        {"batch": BATCH, "length": LENGTH},
        in_tests=True,
    ),
    _recognizer("wav2vec 2.0", "Wav2Vec2ForCTC", "Wav2Vec2Config"),
    _recognizer("HuBERT", "HubertModel", "HubertConfig"),
    Model(
        "AST",
        "speech",
        lambda: from_config(
            "ASTModel",
            "ASTConfig",
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            max_length=64,
            num_mel_bins=32,
        ),
        lambda sizes: {"input_values": floats(sizes["batch"], 64, 32)},
        {"input_values": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "HiFi-GAN",
        "speech synthesis",
        lambda: from_config(
            "SpeechT5HifiGan",
            "SpeechT5HifiGanConfig",
            model_in_dim=16,
            upsample_initial_channel=32,
            upsample_rates=[4, 2],
            upsample_kernel_sizes=[8, 4],
            resblock_kernel_sizes=[3],
            resblock_dilation_sizes=[[1, 3]],
        ),
        lambda sizes: {"spectrogram": floats(sizes["batch"], sizes["frames"], 16)},
        {"spectrogram": {0: "batch", 1: "frames"}},
        {"batch": BATCH, "frames": Range(4, 9, 32)},
    ),
    Model(
        "DAC decoder",
        "speech synthesis",
        _dac_decoder,
        lambda sizes: {"hidden_state": floats(sizes["batch"], 32, sizes["frames"])},
        {"hidden_state": {0: "batch", 2: "frames"}},
        {"batch": BATCH, "frames": Range(4, 9, 32)},
        1e-2,  # float32 itself is 8e-4 from float64 here
    ),
)
