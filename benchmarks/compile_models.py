"""The programs that compile times are measured on: real architectures of `transformers` with seeded random weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import Dim, ExportedProgram


def resnet50() -> ExportedProgram:
    """Return ResNet-50 with a dynamic batch."""
    from transformers import ResNetConfig, ResNetForImageClassification

    return _image_program(ResNetForImageClassification(ResNetConfig()))


def mobilenet_v2() -> ExportedProgram:
    """Return MobileNetV2 with a dynamic batch."""
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

    return _image_program(MobileNetV2ForImageClassification(MobileNetV2Config()))


def bert() -> ExportedProgram:
    """Return BERT-base with a dynamic batch and length."""
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(attn_implementation="sdpa")).eval()
    tokens = torch.randint(1000, (2, 16))
    sizes = {0: Dim("batch", min=1, max=8), 1: Dim("length", min=2, max=128)}
    return _exported(
        model,
        kwargs={"input_ids": tokens, "attention_mask": torch.ones_like(tokens)},
        dynamic_shapes={"input_ids": sizes, "attention_mask": sizes},
    )


def mamba() -> ExportedProgram:
    """Return a Mamba of four layers; its scan over 16 tokens is unrolled."""
    from transformers import MambaConfig, MambaModel

    config = MambaConfig(
        vocab_size=1000, hidden_size=256, state_size=16, num_hidden_layers=4, use_cache=False
    )
    return _exported(MambaModel(config).eval(), kwargs={"input_ids": torch.randint(1000, (1, 16))})


def llama(layers: int) -> ExportedProgram:
    """Return a small Llama with a static cache and a dynamic length."""
    from transformers import LlamaConfig

    return _decoder(
        LlamaConfig(
            vocab_size=1000,
            hidden_size=128,
            intermediate_size=256,
            num_hidden_layers=layers,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=512,
        ),
        cache=128,
    )


def smollm2() -> ExportedProgram:
    """Return a Llama of the size of SmolLM2-135M, with a static cache of 512 tokens."""
    from transformers import LlamaConfig

    return _decoder(
        LlamaConfig(
            vocab_size=49152,
            hidden_size=576,
            intermediate_size=1536,
            num_hidden_layers=30,
            num_attention_heads=9,
            num_key_value_heads=3,
            max_position_embeddings=8192,
            rope_theta=100000.0,
            tie_word_embeddings=True,
        ),
        cache=512,
    )


MODELS: dict[str, Callable[[], ExportedProgram]] = {
    "ResNet-50": resnet50,
    "MobileNetV2": mobilenet_v2,
    "BERT": bert,
    "Mamba": mamba,
    "Llama, 2 layers": lambda: llama(2),
    "Llama, 8 layers": lambda: llama(8),
    "Llama, 16 layers": lambda: llama(16),
    "Llama, 32 layers": lambda: llama(32),
    "SmolLM2-135M": smollm2,
}


def make(name: str) -> ExportedProgram:
    """Return a program of `MODELS`, with the same weights every time."""
    torch.manual_seed(0)
    return MODELS[name]()


def _image_program(model: torch.nn.Module) -> ExportedProgram:
    return _exported(
        model.eval(),
        kwargs={"pixel_values": torch.randn(2, 3, 224, 224)},
        dynamic_shapes={"pixel_values": {0: Dim("batch", min=1, max=8)}},
    )


def _exported(
    model: torch.nn.Module, kwargs: dict[str, Any], dynamic_shapes: Any = None
) -> ExportedProgram:
    model.requires_grad_(False)
    with torch.no_grad():
        return torch.export.export(model, (), kwargs, dynamic_shapes=dynamic_shapes)


def _decoder(config: Any, cache: int) -> ExportedProgram:
    from transformers import GenerationConfig, LlamaForCausalLM
    from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

    model = LlamaForCausalLM(config).eval().requires_grad_(False)
    model.generation_config = GenerationConfig(
        use_cache=True,
        cache_implementation="static",
        max_length=cache,
        cache_config={"batch_size": 1, "max_cache_len": cache, "device": "cpu"},
    )
    module = TorchExportableModuleForDecoderOnlyLM(
        model, batch_size=1, max_cache_len=cache, device=torch.device("cpu")
    )
    length = Dim("length", min=1, max=cache - 1)
    with torch.no_grad():
        program: ExportedProgram = module.export(
            input_ids=torch.tensor([[1, 2, 3]]),
            cache_position=torch.arange(3),
            dynamic_shapes={"input_ids": {1: length}, "cache_position": {0: length}},
        )
    return program
