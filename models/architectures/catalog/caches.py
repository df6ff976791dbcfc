"""Decoders with a static cache, which is state of the program: each call goes on from the call before."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..spec import Model, Range, Sizes, integers
from ._transformers import VOCABULARY, from_config

_LENGTH = Range(1, 4, 8)
_STARTS = {4: 0, 1: 4, 8: 5}
"""The position of the first token of the call at each length: each call goes on where the call before ended."""
_CACHE = 32

_SETTINGS: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "pad_token_id": 0,
}


def _with_cache(model: str, config: str, **settings: Any) -> nn.Module:
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    decoder: Any = from_config(model, config, **settings)
    decoder.requires_grad_(False)
    decoder.generation_config.use_cache = True
    decoder.generation_config.cache_implementation = "static"
    decoder.generation_config.cache_config = {"batch_size": 1, "max_cache_len": _CACHE}
    wrapped = TorchExportableModuleForDecoderOnlyLM(
        decoder, batch_size=1, max_cache_len=_CACHE, device=torch.device("cpu")
    )
    # The outer module does not pass `cache_position` on (transformers 5.24).
    with_cache: nn.Module = wrapped.model
    return with_cache.eval()


def _inputs(sizes: Sizes) -> dict[str, torch.Tensor]:
    length = sizes["length"]
    return {
        "input_ids": integers(3, VOCABULARY, 1, length),
        "cache_position": torch.arange(length) + _STARTS[length],
    }


def _decoder(name: str, model: str, config: str, **more: Any) -> Model:
    return Model(
        f"{name}, static cache",
        "static cache",
        lambda: _with_cache(model, config, **{**_SETTINGS, **more}),
        _inputs,
        {"input_ids": {1: "length"}, "cache_position": {0: "length"}},
        {"length": _LENGTH},
        strict=True,
    )


MODELS = (
    _decoder("Llama", "LlamaForCausalLM", "LlamaConfig"),
    _decoder("Qwen3", "Qwen3ForCausalLM", "Qwen3Config", head_dim=8),
    _decoder("Gemma 3", "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, sliding_window=16),
)
