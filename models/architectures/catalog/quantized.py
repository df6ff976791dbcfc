"""int8 networks, by pt2e and by torchao, and an embedding bag."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from ..spec import Model, floats, integers
from ._transformers import BATCH


class _Convolutions(nn.Module):
    """Two convolutions and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, stride=2)
        self.last = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.second(torch.relu(self.first(x))))
        result: torch.Tensor = self.last(x.mean((2, 3)))
        return result


class _Bag(nn.Module):
    """The mean of the embeddings of a bag of words, and a classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(50, 16)
        self.last = nn.Linear(16, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.last(self.bag(words))
        return result


def _by_pt2e(*, per_channel: bool, symmetric: bool = False) -> nn.Module:
    """Quantize by pt2e; XNNPACK's quantizer has zero points for activations unless they are to be symmetric."""
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import (
        XNNPACKQuantizer,
        get_symmetric_quantization_config,
    )
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    x = floats(4, 3, 16, 16)
    batch = torch.export.Dim("batch", min=BATCH.min, max=BATCH.max)
    exported = torch.export.export(_Convolutions().eval(), (x,), dynamic_shapes=({0: batch},))
    config = get_symmetric_quantization_config(is_per_channel=per_channel)
    if symmetric:
        activation = replace(config.input_activation, qscheme=torch.per_tensor_symmetric)
        config = replace(config, input_activation=activation, output_activation=activation)
    prepared = prepare_pt2e(exported.module(), XNNPACKQuantizer().set_global(config))
    prepared(x)
    converted: nn.Module = convert_pt2e(prepared)
    return converted


def _by_torchao() -> nn.Module:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    network = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        quantize_(network, Int8WeightOnlyConfig())
    return network


def _images(name: str, make: Any, in_tests: bool = False) -> Model:
    return Model(
        name,
        "quantized",
        make,
        lambda sizes: {"x": floats(sizes["batch"], 3, 16, 16)},
        {"x": {0: "batch"}},
        {"batch": BATCH},
        2e-2,  # a step of the quantization: sums that round the other way
        in_tests=in_tests,
    )


MODELS = (
    _images("CNN, int8 by pt2e", partial(_by_pt2e, per_channel=False)),
    _images("CNN, int8 by pt2e, per channel", partial(_by_pt2e, per_channel=True)),
    _images(
        "CNN, int8 by pt2e, symmetric",
        partial(_by_pt2e, per_channel=True, symmetric=True),
        in_tests=True,
    ),
    Model(
        "MLP, int8 weights by torchao",
        "quantized",
        _by_torchao,
        lambda sizes: {"input": floats(sizes["batch"], 32)},
        {"input": {0: "batch"}},
        {"batch": BATCH},
    ),
    Model(
        "Embedding bag",
        "recommendation",
        lambda: _Bag().eval(),
        lambda sizes: {"words": integers(0, 50, sizes["batch"], 6)},
        {"words": {0: "batch"}},
        {"batch": BATCH},
    ),
)
