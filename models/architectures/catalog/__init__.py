"""Every row, by file of its family."""

from __future__ import annotations

from ..spec import Model
from . import caches, dense, diffusion, programs, quantized, sequences, speech, text, vision

MODELS: tuple[Model, ...] = (
    *text.MODELS,
    *caches.MODELS,
    *vision.MODELS,
    *dense.MODELS,
    *speech.MODELS,
    *diffusion.MODELS,
    *sequences.MODELS,
    *quantized.MODELS,
    *programs.MODELS,
)


def by_name(name: str) -> Model:
    """Return a row.

    Raises:
        KeyError: there is none of this name.
    """
    return {model.name: model for model in MODELS}[name]
