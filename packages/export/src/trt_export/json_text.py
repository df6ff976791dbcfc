"""JSON of files that nobody vouches for: what trt-runtime's readers in C++ and Python take, and nothing more."""

import json
import math
from typing import Any, NoReturn


def load_json(text: str | bytes) -> Any:
    """Read JSON: UTF-8, finite numbers, whole characters.

    Python's own reader takes NaN, Infinity, 1e999 and halves of surrogate pairs too. trt-runtime refuses those, so
    what would hold them is refused before it is written into a file.

    Raises:
        ValueError: the text is no such JSON, or nested deeper than Python reads.
    """
    if isinstance(text, bytes):
        text = text.decode()  # Not left to json.loads, which guesses the encoding of bytes.
    try:
        value = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        if "\\" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError.
    except RecursionError:
        raise ValueError("values nested too deeply") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is too large")
    return value
