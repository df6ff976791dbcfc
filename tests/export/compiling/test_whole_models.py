"""Real architectures become one engine, with eager's numbers also in padded rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from export.compiling.whole import (
    SMALL,
    VOCABULARY,
    Inputs,
    compiled,
    exported,
    from_config,
    require_equal,
    require_whole,
    tokens,
)

# transformers is not ours; what it deprecates is not our error.
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")

_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 1, "n_head": 4}
_GEMMA3 = {"head_dim": 8, "sliding_window": 4, "layer_types": ["sliding_attention"]}
DECODERS = [
    ("GPT2LMHeadModel", "GPT2Config", _GPT2),
    ("LlamaForCausalLM", "LlamaConfig", SMALL),
    ("Qwen3ForCausalLM", "Qwen3Config", {**SMALL, "head_dim": 8}),
    ("Gemma3ForCausalLM", "Gemma3TextConfig", {**SMALL, **_GEMMA3}),
    ("Phi3ForCausalLM", "Phi3Config", SMALL),
]


@pytest.mark.parametrize(("model", "config", "settings"), DECODERS, ids=lambda v: str(v)[:20])
def test_a_decoder_with_a_padding_mask_is_one_engine(
    model: str, config: str, settings: dict[str, Any]
) -> None:
    module = from_config(model, config, **settings)
    program = exported(module, tokens(2, 7), "input_ids", "attention_mask")
    found, report = compiled(program)
    require_whole(report)
    for batch, length in ((2, 7), (1, 2), (4, 16)):
        require_equal(found, module, tokens(batch, length))


def _t5() -> tuple[torch.nn.Module, Inputs]:
    settings = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64}
    module = from_config(
        "T5ForConditionalGeneration", "T5Config", **settings, num_layers=1, num_heads=4
    )
    return module, {**tokens(2, 7), "decoder_input_ids": tokens(2, 5)["input_ids"]}


def _swin() -> tuple[torch.nn.Module, Inputs]:
    settings: dict[str, Any] = {"depths": [2, 2], "num_heads": [2, 4], "window_size": 4}
    module = from_config(
        "SwinModel", "SwinConfig", image_size=32, patch_size=2, embed_dim=16, **settings
    )
    return module, {"pixel_values": torch.randn(2, 3, 32, 32)}


def _sam() -> tuple[torch.nn.Module, Inputs]:
    attention = {"num_hidden_layers": 2, "num_attention_heads": 4, "mlp_dim": 64}
    sizes = {"image_size": 64, "patch_size": 8}
    module = from_config(
        "SamModel",
        "SamConfig",
        vision_config={
            **attention,
            **sizes,
            "hidden_size": 32,
            "output_channels": 16,
            "window_size": 4,
            "global_attn_indexes": [1],
            "num_pos_feats": 8,
        },
        prompt_encoder_config={**sizes, "hidden_size": 16, "mask_input_channels": 4},
        mask_decoder_config={**attention, "hidden_size": 16, "iou_head_hidden_dim": 16},
    )
    return module, {
        "pixel_values": torch.randn(2, 3, 64, 64),
        "input_points": torch.rand(2, 1, 2, 2) * 64,
    }


@pytest.mark.parametrize("make", [_t5, _swin, _sam])
def test_what_gradients_would_take_apart_is_one_engine(make: Any) -> None:
    module, inputs = make()
    assert torch.is_grad_enabled()  # `compile` turns them off itself
    found, report = compiled(exported(module, inputs))
    require_whole(report)
    require_equal(found, module, inputs)
