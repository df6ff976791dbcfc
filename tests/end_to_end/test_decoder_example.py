"""Decoding and sampling as examples/chat/decoder.py shows them, with logits that are made up."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

EXAMPLE = Path(__file__).parents[2] / "examples" / "chat"

# transformers is not ours; what it deprecates is not our error.
pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning", "ignore:.*:FutureWarning")


@pytest.fixture
def decoder(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(EXAMPLE)
    return import_module("decoder")


def counting(tokens: Tensor, positions: Tensor) -> Tensor:
    """Logits of a model that says the next higher number; it must be called with positions in a row."""
    assert tokens.shape == (1, len(positions))
    return torch.nn.functional.one_hot(tokens + 1, 100).float()


def test_decoding_stops_at_a_stop_token_or_at_the_end_of_the_cache(decoder: Any) -> None:
    assert list(decoder.decode(counting, [1, 2, 3], 20, decoder.greedy, {8})) == [4, 5, 6, 7]

    def until_full(prompt: list[int]) -> Iterator[int]:
        with pytest.raises(decoder.CacheFullError, match="the cache of 6 tokens is full"):
            yield from decoder.decode(counting, prompt, 6, decoder.greedy, ())

    assert list(until_full([1, 2, 3])) == [4, 5, 6, 7]  # the last one is not in the cache
    assert list(until_full([1, 2, 3, 4, 5, 6])) == [7]
    for prompt in ([], [1] * 7):
        with pytest.raises(decoder.PromptError, match=f"1 to 6 tokens .*, found {len(prompt)}"):
            next(decoder.decode(counting, prompt, 6, decoder.greedy, ()))


def test_sampling(decoder: Any) -> None:
    logits = torch.tensor([0.0, 3.0, 1.0, 2.0, -5.0])
    assert decoder.greedy(logits) == 1
    assert {decoder.sampler(5.0, 1, 0)(logits) for _ in range(20)} == {1}
    one, same = decoder.sampler(1.0, 3, 7), decoder.sampler(1.0, 3, 7)
    drawn = [one(logits) for _ in range(300)]
    assert [same(logits) for _ in range(300)] == drawn
    assert set(drawn) == {1, 2, 3}
    assert drawn.count(1) > drawn.count(3) > drawn.count(2)
    cold = decoder.sampler(0.05, 40, 0)
    assert {cold(logits) for _ in range(50)} == {1}
