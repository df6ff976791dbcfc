"""JSON of files that nobody vouches for: what the readers in C++ and in trt-export take, and nothing more."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn


def load_json(text: str) -> Any:
    """Read JSON of finite numbers and whole characters.

    Python's own reader takes NaN, Infinity, 1e999 and halves of surrogate pairs too.

    Raises:
        ValueError: the text is no such JSON, or nested deeper than Python reads.

    """
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\" in text or not text.isascii():
            dump_json(value)
    except RecursionError:
        raise ValueError("values nested too deeply") from None
    return value


def dump_json(value: object) -> str:
    """Write JSON that `load_json` and the native readers take.

    Raises:
        TypeError: a value has no JSON.
        ValueError: a number is not finite, a text has half a surrogate pair, or values are nested too deeply.

    """
    try:
        # UnicodeEncodeError is a ValueError.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        return json.dumps(value, allow_nan=False)
    except RecursionError:
        raise ValueError("values nested too deeply") from None


def is_text(text: str) -> bool:
    """Whether a text has an encoding: Python's may hold halves of surrogate pairs, which have none."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text[:40]} is too large")
    return value
