"""Rows made from transformers' configurations: small ones, with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import transformers

from ..spec import Range, Sizes, floats, integers

BATCH = Range(1, 2, 4)
LENGTH = Range(2, 7, 16)
TOKENS_DYNAMIC: Mapping[str, Mapping[int, str]] = {
    "input_ids": {0: "batch", 1: "length"},
    "attention_mask": {0: "batch", 1: "length"},
}
TOKENS_RANGES: Mapping[str, Range] = {"batch": BATCH, "length": LENGTH}
VOCABULARY = 99


def from_config(model: str, config: str, **settings: Any) -> torch.nn.Module:
    """Make a model of transformers by the names of its class and its configuration's."""
    made = getattr(transformers, model)(getattr(transformers, config)(**settings))
    assert isinstance(made, torch.nn.Module)
    return made.eval()


def without_cache(model: torch.nn.Module) -> torch.nn.Module:
    """Have a decoder return no cache of keys and values, which would be an output of the program."""
    for module in model.modules():  # a part, such as a decoder, may have a configuration of its own
        config: Any = getattr(module, "config", None)
        if config is not None:
            config.use_cache = False
    return model


def tokens(sizes: Sizes) -> dict[str, torch.Tensor]:
    """Return token ids and a mask whose first row is padded on the left, as a decoder's batch is."""
    batch, length = sizes["batch"], sizes["length"]
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, : length // 2] = 0
    return {"input_ids": integers(3, VOCABULARY, batch, length), "attention_mask": mask}


def tokens_padded_right(sizes: Sizes) -> dict[str, torch.Tensor]:
    """Return token ids and a mask whose first row is padded on the right, as an encoder's batch is."""
    found = tokens(sizes)
    return {**found, "attention_mask": found["attention_mask"].flip(1)}


def pixels(side: int, channels: int = 3, name: str = "pixel_values") -> Any:
    """Return a function that makes a batch of square images."""
    return lambda sizes: {name: floats(sizes["batch"], channels, side, side)}
