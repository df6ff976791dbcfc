"""Text encoders, decoders without a cache, and encoder-decoders."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from ..spec import Model, Sizes, integers
from ._transformers import (
    BATCH,
    LENGTH,
    TOKENS_DYNAMIC,
    TOKENS_RANGES,
    VOCABULARY,
    from_config,
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


def _encoder(name: str, model: str, config: str, in_tests: bool = False, **more: Any) -> Model:
    return Model(
        name,
        "text encoder",
        partial(from_config, model, config, **{**_SMALL, **more}),
        tokens_padded_right,
        TOKENS_DYNAMIC,
        TOKENS_RANGES,
        in_tests=in_tests,
    )


def _decoder(name: str, model: str, config: str, in_tests: bool = False, **settings: Any) -> Model:
    return Model(
        name,
        "text decoder",
        lambda: without_cache(from_config(model, config, **settings)),
        tokens,
        TOKENS_DYNAMIC,
        TOKENS_RANGES,
        in_tests=in_tests,
    )


def _llama_like(name: str, model: str, config: str, in_tests: bool = False, **more: Any) -> Model:
    return _decoder(
        name,
        model,
        config,
        in_tests,
        **{**_SMALL, "num_key_value_heads": 2, "pad_token_id": 0, **more},
    )


_T5: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
}


def _both_sides(sizes: Sizes) -> dict[str, torch.Tensor]:
    found = tokens_padded_right(sizes)
    return {
        **found,
        "decoder_input_ids": integers(3, VOCABULARY, sizes["batch"], sizes["target"], seed=1),
    }


def _encoder_decoder(name: str, make: Any, in_tests: bool = False) -> Model:
    return Model(
        name,
        "text encoder-decoder",
        lambda: without_cache(make()),
        _both_sides,
        {**TOKENS_DYNAMIC, "decoder_input_ids": {0: "batch", 1: "target"}},
        {"batch": BATCH, "length": LENGTH, "target": LENGTH},
        in_tests=in_tests,
    )


MODELS = (
    _encoder("BERT", "BertModel", "BertConfig", in_tests=True),
    _encoder("RoBERTa", "RobertaModel", "RobertaConfig", max_position_embeddings=64),
    _encoder("ALBERT", "AlbertModel", "AlbertConfig", embedding_size=16),
    _encoder("ELECTRA", "ElectraModel", "ElectraConfig", embedding_size=16),
    _encoder("MPNet", "MPNetModel", "MPNetConfig"),
    _encoder(
        "DeBERTa v2",
        "DebertaV2Model",
        "DebertaV2Config",
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
    ),
    _encoder(
        "ModernBERT",
        "ModernBertModel",
        "ModernBertConfig",
        pad_token_id=0,
        global_attn_every_n_layers=2,
    ),
    _encoder("SqueezeBERT", "SqueezeBertModel", "SqueezeBertConfig", embedding_size=32),
    _encoder(
        "DistilBERT",
        "DistilBertModel",
        "DistilBertConfig",
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
    ),
    _decoder(
        "GPT-2",
        "GPT2LMHeadModel",
        "GPT2Config",
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
    ),
    _decoder(
        "OPT",
        "OPTForCausalLM",
        "OPTConfig",
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=64,
        word_embed_proj_dim=32,
        max_position_embeddings=64,
    ),
    _decoder(
        "BLOOM",
        "BloomForCausalLM",
        "BloomConfig",
        vocab_size=VOCABULARY,
        hidden_size=32,
        n_layer=2,
        n_head=4,
    ),
    _decoder("GPT-NeoX", "GPTNeoXForCausalLM", "GPTNeoXConfig", **_SMALL),
    _decoder("Falcon", "FalconForCausalLM", "FalconConfig", **_SMALL),
    _llama_like("Llama", "LlamaForCausalLM", "LlamaConfig", in_tests=True),
    _llama_like("Mistral, sliding window", "MistralForCausalLM", "MistralConfig", sliding_window=4),
    _llama_like("Qwen3", "Qwen3ForCausalLM", "Qwen3Config", head_dim=8),
    _llama_like("Gemma 3", "Gemma3ForCausalLM", "Gemma3TextConfig", head_dim=8, sliding_window=4),
    _llama_like("Phi-3", "Phi3ForCausalLM", "Phi3Config"),
    _llama_like("Granite", "GraniteForCausalLM", "GraniteConfig"),
    _llama_like("StableLM", "StableLmForCausalLM", "StableLmConfig"),
    _encoder_decoder(
        "T5", lambda: from_config("T5ForConditionalGeneration", "T5Config", **_T5), in_tests=True
    ),
    _encoder_decoder(
        "BART",
        lambda: from_config(
            "BartForConditionalGeneration",
            "BartConfig",
            vocab_size=VOCABULARY,
            d_model=32,
            encoder_layers=2,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            max_position_embeddings=64,
        ),
    ),
)
