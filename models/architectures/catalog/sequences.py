"""State space models, mixtures of experts, recurrent networks, time series."""

from __future__ import annotations

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
    tokens,
    without_cache,
)


def _ids(sizes: Sizes) -> dict[str, torch.Tensor]:
    return {"input_ids": integers(3, VOCABULARY, sizes["batch"], sizes["length"])}


def _state_space(
    name: str, model: str, config: str, in_tests: bool = False, **settings: Any
) -> Model:
    return Model(
        name,
        "state space",
        lambda: without_cache(
            from_config(
                model,
                config,
                vocab_size=VOCABULARY,
                hidden_size=32,
                num_hidden_layers=2,
                **settings,
            )
        ),
        lambda _: {"input_ids": integers(3, VOCABULARY, 2, 8)},
        in_tests=in_tests,
    )


_EXPERTS: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 64,
    "pad_token_id": 0,
}


def _mixture(name: str, model: str, config: str, experts: str | None = None, **more: Any) -> Model:
    """A row; `experts` is transformers' implementation of them if not its default."""

    def make() -> nn.Module:
        module = from_config(model, config, **{**_EXPERTS, **more})
        if experts:
            module.set_experts_implementation(experts)  # type: ignore[operator]
        return without_cache(module)

    return Model(
        f"{name}, {experts}" if experts else name,
        "mixture of experts",
        make,
        tokens,
        TOKENS_DYNAMIC,
        TOKENS_RANGES,
    )


class _Recurrent(nn.Module):
    """A recurrent layer in both directions, and a linear one."""

    def __init__(self, kind: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.layer = kind(16, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.last = nn.Linear(48, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.layer(x)[0])
        return result


def _recurrent(name: str, kind: type[nn.LSTM] | type[nn.GRU]) -> Model:
    return Model(
        name,
        "recurrent",
        lambda: _Recurrent(kind).eval(),
        lambda sizes: {"x": floats(sizes["batch"], 12, 16)},
        {"x": {0: "batch"}},
        {"batch": BATCH},
    )


class _Convolutions(nn.Module):
    """A temporal convolutional network: causal, dilated, with residuals."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(16, 16, 3, dilation=2**index) for index in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for index, layer in enumerate(self.layers):
            x = x + torch.relu(layer(nn.functional.pad(x, (2 * 2**index, 0))))
        return x


MODELS = (
    _state_space("Mamba", "MambaForCausalLM", "MambaConfig", in_tests=True, state_size=8),
    _state_space(
        "Mamba 2",
        "Mamba2ForCausalLM",
        "Mamba2Config",
        num_heads=4,
        head_dim=16,
        state_size=8,
        n_groups=1,
        chunk_size=4,
    ),
    _mixture("Mixtral", "MixtralForCausalLM", "MixtralConfig", num_local_experts=4),
    _mixture("Mixtral", "MixtralForCausalLM", "MixtralConfig", "batched_mm", num_local_experts=4),
    _mixture(
        "Qwen3-MoE",
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        head_dim=8,
    ),
    _mixture(
        "Qwen3-MoE",
        "Qwen3MoeForCausalLM",
        "Qwen3MoeConfig",
        "batched_mm",
        num_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=32,
        head_dim=8,
    ),
    _mixture(
        "GPT-OSS",
        "GptOssForCausalLM",
        "GptOssConfig",
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=8,
        sliding_window=4,
    ),
    _recurrent("LSTM", nn.LSTM),
    _recurrent("GRU", nn.GRU),
    Model(
        "TCN",
        "time series",
        lambda: _Convolutions().eval(),
        lambda sizes: {"x": floats(sizes["batch"], 16, sizes["length"])},
        {"x": {0: "batch", 2: "length"}},
        {"batch": BATCH, "length": Range(4, 20, 64)},
    ),
    Model(
        "PatchTSMixer",
        "time series",
        lambda: from_config(
            "PatchTSMixerForPrediction",
            "PatchTSMixerConfig",
            num_input_channels=3,
            context_length=32,
            patch_length=4,
            patch_stride=4,
            d_model=16,
            num_layers=2,
            prediction_length=8,
        ),
        lambda sizes: {"past_values": floats(sizes["batch"], 32, 3)},
        {"past_values": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "PatchTST",
        "time series",
        lambda: from_config(
            "PatchTSTModel",
            "PatchTSTConfig",
            num_input_channels=3,
            context_length=32,
            patch_length=4,
            patch_stride=4,
            d_model=16,
            num_attention_heads=4,
            num_hidden_layers=2,
            ffn_dim=32,
        ),
        lambda sizes: {"past_values": floats(sizes["batch"], 32, 3)},
        {"past_values": {0: "batch"}},
        {"batch": BATCH},
    ),
)
