"""How to export a language model with its cache, run it token by token, and sample.

The cache is a set of buffers of the exported program: keys and values of every layer, `length` tokens long. Each call
writes the keys and values of its tokens at their positions, and attends to everything up to there. So one program does
both parts of the work: the whole prompt in one call (prefill), then one token per call (decode).

In a `.pte` these buffers are state of the method: they live as long as the loaded program, and nobody passes them in or
out. A new text starts at position 0; what the cache has of an earlier text lies behind its positions and is not read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import torch
import transformers
from torch import Tensor
from torch.export import Dim, ExportedProgram
from transformers.integrations.executorch import TorchExportableModuleForDecoderOnlyLM

import trt_runtime

Step = Callable[[Tensor, Tensor], Tensor]
"""Takes token ids `[1, tokens]` and their positions `[tokens]`, int64; returns logits `[1, tokens, vocabulary]`."""
Choice = Callable[[Tensor], int]
"""Takes logits `[vocabulary]`, returns a token id."""


class PromptError(ValueError):
    """A prompt that is empty or does not fit into the cache."""


class CacheFullError(Exception):
    """The text has reached the end of the cache: there is no room for another token."""


def with_cache(
    model: transformers.PreTrainedModel, length: int
) -> TorchExportableModuleForDecoderOnlyLM:
    """Return a module that shares the model's weights and has a cache of `length` tokens, for one text at a time."""
    model = copy.copy(model)  # the generation settings of the caller's model stay as they are
    model.generation_config = transformers.GenerationConfig(
        use_cache=True, cache_implementation="static"
    )
    return TorchExportableModuleForDecoderOnlyLM(
        model, batch_size=1, max_cache_len=length, device=torch.device("cpu")
    )


def export(model: transformers.PreTrainedModel, length: int) -> ExportedProgram:
    """Export a model with a cache of `length` tokens; a call takes 1 to `length` of them."""
    tokens = Dim("tokens", min=1, max=length)
    with torch.no_grad():
        program: ExportedProgram = with_cache(model, length).export(
            input_ids=torch.tensor([[1, 2, 3]]),
            cache_position=torch.arange(3),
            dynamic_shapes={"input_ids": {1: tokens}, "cache_position": {0: tokens}},
        )
    return program


def from_pte(path: Path) -> Step:
    """Return the step of a `.pte`."""
    program = trt_runtime.load(path)
    return lambda tokens, positions: program.run([tokens, positions])[0]


def from_module(module: torch.nn.Module) -> Step:
    """Return the step of a module: eager, or that of a compiled program."""

    @torch.no_grad()
    def step(tokens: Tensor, positions: Tensor) -> Tensor:
        logits: Tensor = module(input_ids=tokens, cache_position=positions)
        return logits

    return step


def check_prompt(prompt: Sequence[int], length: int) -> None:
    """Raise PromptError unless the prompt has 1 to `length` tokens."""
    if not 1 <= len(prompt) <= length:
        raise PromptError(
            f"expected a prompt of 1 to {length} tokens (the length of the cache), found {len(prompt)}"
        )


def decode(
    step: Step, prompt: Sequence[int], length: int, choose: Choice, stop: Collection[int]
) -> Iterator[int]:
    """Yield the tokens that follow a prompt, until the model says one of `stop`, which is not yielded.

    Args:
        step: the program, whose cache has `length` tokens.
        prompt: token ids.
        choose: picks a token by its logits: `greedy`, or what `sampler` returns.

    Raises:
        PromptError: the prompt is empty or longer than the cache.
        CacheFullError: the last token that was yielded is beyond the cache, so it cannot be continued. Start again with
            a shorter text (for a chat: without its oldest messages), or export with a longer cache.
    """
    check_prompt(prompt, length)
    tokens, position = list(prompt), 0
    while True:
        logits = step(torch.tensor([tokens]), torch.arange(position, position + len(tokens)))
        position += len(tokens)
        token = choose(logits[0, -1])
        if token in stop:
            return
        yield token
        if position == length:
            raise CacheFullError(f"the cache of {length} tokens is full")
        tokens = [token]


def greedy(logits: Tensor) -> int:
    """Return the most likely token."""
    return int(logits.argmax())


def sampler(temperature: float, top_k: int, seed: int) -> Choice:
    """Return a random choice among the `top_k` most likely tokens.

    `temperature` divides the logits: below 1 the likely tokens become likelier, above 1 the unlikely ones.
    """
    generator = torch.Generator().manual_seed(seed)

    def choose(logits: Tensor) -> int:
        likely = logits.topk(min(top_k, len(logits)))
        probabilities = (likely.values / temperature).softmax(-1)
        return int(likely.indices[torch.multinomial(probabilities, 1, generator=generator)])

    return choose
