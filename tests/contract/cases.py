"""The files in docs/contract as Python values; docs/contract/README.md says what their keys mean.

The standard library alone is used, since the fuzzers' seeds come from here too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "docs" / "contract"


def load(name: str) -> dict[str, Any]:
    """The file ``name``.json."""
    return dict(json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8")))


def text_of(text: str | Sequence[Sequence[Any]]) -> str:
    """A text as it is, or as a list of pieces, each with how many times it is there."""
    return text if isinstance(text, str) else "".join(piece * times for piece, times in text)
