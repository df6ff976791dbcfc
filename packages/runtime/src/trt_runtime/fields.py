"""Reading typed fields out of a mapping that came from elsewhere, with errors that say where."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

from .errors import RecordError

T = TypeVar("T")

INT64_MAX = 2**63 - 1


class Fields:
    """The fields of one mapping. Every reader raises RecordError naming the field.

    What is not read by name is kept (`rest`), since records of later versions have more fields.
    """

    def __init__(self, mapping: object, where: str) -> None:
        """Wrap ``mapping``; ``where`` begins every message, such as ``record: input 0``."""
        if not isinstance(mapping, Mapping) or not all(isinstance(key, str) for key in mapping):
            raise RecordError(
                f"{where}: expected a mapping with text keys, found {_shown(mapping)}; see "
                "docs/engine-record.md"
            )
        self._mapping: Mapping[str, Any] = mapping
        self._where = where
        self._read: set[str] = set()

    def get(self, key: str, kind: type[T], default: T | None = None) -> T:
        """Return the field if it is exactly of type ``kind``; a default makes it optional."""
        self._read.add(key)
        if key not in self._mapping:
            if default is None:
                raise self.error(key, f"a value of type {kind.__name__}", "no such field")
            return default
        value = self._mapping[key]
        # bool is an int to isinstance, and 1.0 or True are no dimensions.
        if type(value) is not kind and not (kind is not int and isinstance(value, kind)):
            raise self.error(key, f"a value of type {kind.__name__}", _shown(value))
        return value

    def choice(self, key: str, choices: Iterable[str], default: str | None = None) -> str:
        """Return a text that is one of ``choices``."""
        value = self.get(key, str, default)
        if value not in choices:
            raise self.error(key, f"one of {', '.join(choices)}", _shown(value))
        return value

    def size(self, key: str) -> int:
        """Return an int from 0 to 2**63 - 1."""
        value = self.get(key, int)
        if not 0 <= value <= INT64_MAX:
            raise self.error(key, "an int from 0 to 2**63 - 1", _shown(value))
        return value

    def sizes(self, key: str, length: int) -> tuple[int, ...]:
        """Return ``length`` ints from 0 to 2**63 - 1."""
        values = self.items(key)
        if len(values) != length or not all(is_size(value) for value in values):
            raise self.error(key, f"{length} ints from 0 to 2**63 - 1", _shown(values))
        return tuple(values)

    def items(self, key: str, default: Sequence[Any] | None = None) -> Sequence[Any]:
        """Return a list or tuple of anything."""
        self._read.add(key)
        value = self._mapping.get(key, default)
        if not isinstance(value, (list, tuple)):
            raise self.error(
                key, "a list", _shown(value) if key in self._mapping else "no such field"
            )
        return value

    def rest(self) -> dict[str, Any]:
        """Return the fields that no one asked for."""
        return {key: value for key, value in self._mapping.items() if key not in self._read}

    def raw(self, key: str) -> Any:
        """Return the field as it is, None if it is not there."""
        self._read.add(key)
        return self._mapping.get(key)

    def error(self, key: str, expected: str, found: str) -> RecordError:
        """Make the error for a field."""
        return RecordError(
            f"{self._where}: field '{key}': expected {expected}, found {found}; see docs/engine-record.md"
        )


def is_size(value: object) -> bool:
    """Whether ``value`` is an int (no bool) that can be the size of a dimension."""
    return type(value) is int and 0 <= value <= INT64_MAX


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 80 else text[:77] + '...'}"
