"""The model families that the whole road is measured on, as a table: tests of every stage go through it.

Import as `from models import FAMILIES` (pytest puts `tests/` on the path for tests/conftest.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

Inputs = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Family:
    """A kind of model.

    `inputs(*sizes)` makes example arguments; `sizes` are those of the export, `other_sizes` further ones to try, one
    tuple per call. `dynamic_shapes` is torch.export's. `tolerance` is for floating point results, absolute and
    relative; integers and bools are exact. `stays` names the operators that no builder takes.
    """

    name: str
    module: Callable[[], nn.Module]
    inputs: Callable[..., Inputs]
    sizes: tuple[int, ...] = ()
    other_sizes: tuple[tuple[int, ...], ...] = ()
    dynamic_shapes: Any = None
    tolerance: float = 1e-5
    stays: frozenset[str] = frozenset()
    steps: int = 1
    """How often to call in a row: more than once where a state must be carried on."""

    def make(self) -> nn.Module:
        """Return the module, in evaluation mode, with the same weights every time."""
        torch.manual_seed(0)
        return self.module().eval()

    def export(self, module: nn.Module) -> ExportedProgram:
        args, kwargs = self.inputs(*self.sizes)
        return torch.export.export(module, args, kwargs, dynamic_shapes=self.dynamic_shapes)

    def __str__(self) -> str:
        return self.name


class MLP(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


class ResidualConvNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norm1 = nn.BatchNorm2d(8)
        self.conv = nn.Conv2d(8, 8, 3, padding=1)
        self.norm2 = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)
        with torch.no_grad():
            for norm in (self.norm1, self.norm2):
                norm.running_mean.uniform_(-1, 1)
                norm.running_var.uniform_(0.5, 2)

    def forward(self, image: Tensor) -> Tensor:
        x = self.norm1(self.stem(image)).relu()
        x = (x + self.norm2(self.conv(x))).relu()
        return self.head(nn.functional.max_pool2d(x, 2).mean((2, 3)))


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.position = nn.Embedding(32, 16)
        layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, activation="gelu")
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.embed(tokens) + self.position(positions)
        x = self.layers(x, src_key_padding_mask=~mask)
        kept = mask.unsqueeze(-1).to(x.dtype)
        return (x * kept).sum(1) / kept.sum(1)


class CachedDecoder(nn.Module):
    """One attention layer that writes each call's key and value into a cache at the position it counts itself."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(50, 16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 50)
        self.register_buffer("keys", torch.zeros(1, 4, 12, 4))
        self.register_buffer("values", torch.zeros(1, 4, 12, 4))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, token: Tensor) -> Tensor:
        q, k, v = (
            t.reshape(1, 1, 4, 4).transpose(1, 2) for t in self.qkv(self.embed(token)).chunk(3, -1)
        )
        self.keys.index_copy_(2, self.position, k)
        self.values.index_copy_(2, self.position, v)
        seen = torch.arange(12, device=token.device) <= self.position
        scores = (q @ self.keys.transpose(-1, -2) / 2).masked_fill(~seen, float("-inf"))
        x = (scores.softmax(-1) @ self.values).transpose(1, 2).reshape(1, 1, 16)
        self.position.add_(1)
        return self.out(x)


class ManyOutputs(nn.Module):
    def forward(self, x: Tensor, scale: Tensor) -> dict[str, Any]:
        scores = x * scale
        return {
            "scores": scores,
            "positive": scores > 0,
            "best": scores.argmax(-1),
            "total": scores.sum(),
            "count": (scores > 0).sum(),
        }


class HalfNet(nn.Module):
    """Half precision, with the operators that torch.onnx computes as float32."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.second = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.second(self.first(x).relu().abs())
        return x, x.sum(-1)


class PassThrough(nn.Module):
    """Outputs that are inputs, that are the same twice, that are None or an int; inputs that are None or an int."""

    def forward(
        self, x: Tensor, mask: Tensor | None, times: int, *, bias: Tensor
    ) -> tuple[Any, ...]:
        y = x * times + bias
        return x, y, y, None, times, bias


class NonzeroBetween(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).relu()
        kept = x[:, 0].nonzero().squeeze(-1)
        return self.second(x.index_select(0, kept)).tanh()


class BernoulliBetween(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x).sigmoid()
        return self.second(x * torch.bernoulli(x))


class DerivedDims(nn.Module):
    """Sizes that follow from each other: twice, one more, and the same as another input's."""

    def forward(self, x: Tensor, twice: Tensor, longer: Tensor, same: Tensor) -> tuple[Tensor, ...]:
        pairs = twice.reshape(x.shape[0], 2, 4).sum(1)
        return x + same, pairs * x, longer[1:] - x, torch.cat([twice, longer])


class TiedBuffers(nn.Module):
    """A buffer that is written, read again and written again around an operator that stays in PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        self.state.add_(x.mean(0))
        rows = self.state.nonzero().squeeze(-1)
        self.state.mul_(0.5)
        return x * self.state + rows.sum()


def _float(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, dtype=dtype)


def _encoder_inputs(batch: int, length: int) -> Inputs:
    lengths = torch.arange(batch) % length + 1
    mask = torch.arange(length) < lengths[:, None]
    return (torch.randint(50, (batch, length)), mask), {}


_BATCH = Dim("batch", min=1, max=16)
_LENGTH = Dim("length", min=1, max=32)
_COUNT = Dim("count", min=2, max=10)

FAMILIES = (
    Family("mlp", MLP, lambda n: ((_float(n, 8),), {}), (4,), ((1,), (16,)), ({0: _BATCH},)),
    Family(
        "residual_convnet",
        ResidualConvNet,
        lambda n: ((_float(n, 3, 12, 12),), {}),
        (2,),
        ((1,), (16,)),
        ({0: _BATCH},),
    ),
    Family(
        "encoder",
        Encoder,
        _encoder_inputs,
        (3, 7),
        ((1, 1), (16, 32), (1, 32), (16, 1)),
        ({0: _BATCH, 1: _LENGTH}, {0: _BATCH, 1: _LENGTH}),
    ),
    Family("cached_decoder", CachedDecoder, lambda: ((torch.randint(50, (1, 1)),), {}), steps=5),
    Family(
        "many_outputs",
        ManyOutputs,
        lambda n: ((_float(n, 6), torch.tensor(1.5)), {}),
        (4,),
        ((1,), (16,)),
        ({0: _BATCH}, {}),
    ),
    Family(
        "half",
        lambda: HalfNet().half(),
        lambda n: ((_float(n, 8, dtype=torch.float16),), {}),
        (4,),
        ((1,), (16,)),
        ({0: _BATCH},),
        tolerance=1e-2,
    ),
    Family(
        "pass_through",
        PassThrough,
        lambda n: ((_float(n, 3), None, 2), {"bias": _float(3)}),
        (4,),
        ((1,), (16,)),
        {"x": {0: _BATCH}, "mask": None, "times": None, "bias": {}},
    ),
    Family(
        "nonzero_between",
        NonzeroBetween,
        lambda: ((_float(6, 8),), {}),
        stays=frozenset({"aten.nonzero.default"}),
    ),
    Family(
        "bernoulli_between",
        BernoulliBetween,
        lambda n: ((_float(n, 8),), {}),
        (4,),
        ((1,), (16,)),
        ({0: _BATCH},),
        stays=frozenset({"aten.bernoulli.default"}),
    ),
    Family(
        "derived_dims",
        DerivedDims,
        lambda n: ((_float(n, 4), _float(2 * n, 4), _float(n + 1, 4), _float(n, 4)), {}),
        (4,),
        ((2,), (10,)),
        ({0: _COUNT}, {0: 2 * _COUNT}, {0: _COUNT + 1}, {0: _COUNT}),
    ),
    Family(
        "tied_buffers",
        TiedBuffers,
        lambda n: ((_float(n, 4),), {}),
        (4,),
        ((1,), (16,)),
        ({0: _BATCH},),
        stays=frozenset({"aten.nonzero.default"}),
        steps=3,
    ),
)
