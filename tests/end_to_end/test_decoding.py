"""Language models decode from their `.pte` what `generate` of transformers does, padded and not, beyond a window."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

import trt_export
import trt_runtime

# transformers is not ours; what it deprecates, and what torch.export sees it do, is not our error.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore:{message}")
    for message in (
        ".*:DeprecationWarning",
        ".*:FutureWarning",
        "While compiling, we found certain side effects:UserWarning",
    )
]

NEW = 32
CACHE = 48
WINDOW = 8
PAD = 0
VOCABULARY = 200
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 64,
    "pad_token_id": PAD,
    "tie_word_embeddings": False,
    "initializer_range": 0.2,  # large enough that the tokens of random weights vary
}
CONFIGS: dict[str, Callable[[], transformers.PretrainedConfig]] = {
    "llama": lambda: transformers.LlamaConfig(**SIZES),
    "qwen3": lambda: transformers.Qwen3Config(**SIZES),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        **SIZES,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    ),
}
Step = Callable[..., Tensor]


def make(name: str) -> transformers.PreTrainedModel:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(CONFIGS[name]())
    model.generation_config = transformers.GenerationConfig(pad_token_id=PAD)
    return model.eval().requires_grad_(False)


def generated(model: transformers.PreTrainedModel, ids: Tensor, mask: Tensor) -> Tensor:
    """What transformers makes of it, with a cache that grows: `[batch, NEW]`."""
    tokens = model.generate(
        ids, attention_mask=mask, max_new_tokens=NEW, do_sample=False, pad_token_id=PAD
    )[:, ids.shape[1] :]
    assert tokens.shape == (len(ids), NEW)
    assert len(tokens.unique()) > 4  # not one token again and again, which needs no cache
    return tokens


def exportable(model: transformers.PreTrainedModel, batch: int) -> Any:
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static"
    )
    return TorchExportableModuleForDecoderOnlyLM(
        model, batch_size=batch, max_cache_len=CACHE, device=torch.device("cpu")
    )


class Padded(nn.Module):
    """A decoder of several texts at once, which are padded on the left: it takes a mask and positions as well."""

    def __init__(self, model: transformers.PreTrainedModel, batch: int) -> None:
        super().__init__()
        self.inner = exportable(model, batch).model

    def forward(
        self,
        input_ids: Tensor,
        cache_position: Tensor,
        attention_mask: Tensor,
        position_ids: Tensor,
    ) -> Tensor:
        cache = getattr(self.inner, "static_cache", None) or self.inner.cache
        for layer in cache.layers:
            layer.cumulative_length.copy_(cache_position[0])
        return self.inner.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            position_ids=position_ids,
            cache=cache,
            use_cache=True,
        ).logits


def exported(model: transformers.PreTrainedModel) -> ExportedProgram:
    tokens = Dim("tokens", min=1, max=CACHE)
    with torch.no_grad():
        return exportable(model, 1).export(
            input_ids=torch.tensor([[1, 2, 3]]),
            cache_position=torch.arange(3),
            dynamic_shapes={"input_ids": {1: tokens}, "cache_position": {0: tokens}},
        )


def exported_padded(model: transformers.PreTrainedModel, batch: int) -> ExportedProgram:
    tokens = Dim("tokens", min=1, max=CACHE)
    inputs = {
        "input_ids": torch.ones(batch, 3, dtype=torch.int64),
        "cache_position": torch.arange(3),
        "attention_mask": torch.ones(batch, CACHE, dtype=torch.int64),
        "position_ids": torch.arange(3).expand(batch, 3),
    }
    sizes = {"input_ids": {1: tokens}, "cache_position": {0: tokens}, "position_ids": {1: tokens}}
    with torch.no_grad():
        return torch.export.export(
            Padded(model, batch),
            (),
            inputs,
            dynamic_shapes=sizes | {"attention_mask": {}},
            strict=True,  # transformers' static caches need it
        )


def in_one_engine(program: ExportedProgram, folder: Path) -> ExportedProgram:
    """Save, load, compile, save and load again."""
    torch.export.save(program, folder / "exported.pt2")
    reports: list[Any] = []
    compiled = trt_export.compile(
        torch.export.load(folder / "exported.pt2"), on_report=reports.append
    )
    (report,) = reports
    assert [(node.operator, node.reason) for node in report.left_in_pytorch] == []
    assert len(report.engines) == 1
    assert report.verified
    trt_runtime.save_program(compiled, folder / "compiled.pt2")
    return trt_runtime.load_program(folder / "compiled.pt2")


def decoded(step: Step, ids: Tensor, mask: Tensor | None = None) -> Tensor:
    """Greedily, the prompt in one call and then a token a call: `[batch, NEW]`."""
    found: list[Tensor] = []
    start, more = 0, {}
    while True:
        here = torch.arange(start, start + ids.shape[1])
        if mask is not None:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, here]
            more = {"attention_mask": mask, "position_ids": positions}
        logits = step(input_ids=ids, cache_position=here, **more)
        ids = logits[:, -1:].argmax(-1)
        found.append(ids)
        if len(found) == NEW:
            return torch.cat(found, 1)
        start = int(here[-1]) + 1


def steps(program: ExportedProgram, folder: Path) -> dict[str, Step]:
    trt_export.save(trt_export.to_edge(program), folder / "decoder.pte")
    loaded = trt_runtime.load(folder / "decoder.pte")
    names = loaded.signature().names
    return {
        "PyTorch": program.module(),
        ".pte": lambda **inputs: loaded.run([inputs[name] for name in names])[0],
    }


def prompt(seed: int, length: int) -> Tensor:
    return torch.randint(1, VOCABULARY, (1, length), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", CONFIGS)
def test_a_decoder_decodes_what_generate_does(name: str, tmp_path: Path) -> None:
    model = make(name)
    # The second text begins while the cache is full of the first; both go beyond the window in several ways.
    prompts = [prompt(1, 7), prompt(2, WINDOW + 5), prompt(3, 1)]
    expected = [generated(model, ids, torch.ones_like(ids)) for ids in prompts]
    if name == "gemma3":
        wide = make(name)
        wide.config.sliding_window = CACHE
        ids = prompts[1]
        assert not torch.equal(generated(wide, ids, torch.ones_like(ids)), expected[1])
    program = in_one_engine(exported(model), tmp_path)
    for way, step in steps(program, tmp_path).items():
        for ids, tokens in zip(prompts, expected, strict=True):
            assert decoded(step, ids).tolist() == tokens.tolist(), way


@pytest.mark.parametrize("name", CONFIGS)
def test_padded_texts_decode_as_generate_does(name: str, tmp_path: Path) -> None:
    model = make(name)
    texts = [prompt(1, 4)[0], prompt(2, 11)[0], prompt(3, 9)[0]]
    longest = max(len(text) for text in texts)
    ids = torch.stack([nn.functional.pad(t, (longest - len(t), 0), value=PAD) for t in texts])
    mask = torch.ones(len(texts), CACHE, dtype=torch.int64)
    for row, text in zip(mask, texts, strict=True):
        row[: longest - len(text)] = 0
    expected = generated(model, ids, mask[:, :longest])
    # Padding changes nothing: each text alone has the same tokens.
    for text, tokens in zip(texts, expected, strict=True):
        alone = generated(model, text[None], torch.ones_like(text)[None])
        assert alone[0].tolist() == tokens.tolist()
    program = in_one_engine(exported_padded(model, len(texts)), tmp_path)
    for way, step in steps(program, tmp_path).items():
        assert decoded(step, ids, mask).tolist() == expected.tolist(), way
