"""Engines and the memory that they were bound to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..leaving import begin, end


def _as_it_is(error: Exception) -> Exception:
    return error


@dataclass(frozen=True, slots=True)
class Bound:
    """What runs an engine on the memory that it was bound to, as often as it is called.

    The native delegate calls ``run`` by itself: to a small engine each frame of Python matters.
    """

    run: Callable[[], object]
    explain: Callable[[Exception], Exception] = _as_it_is
    """Makes what is raised of what ``run`` raised."""
    keeps: object = None
    """What must live as long as this."""

    def __call__(self) -> None:
        """Run; raises what ``explain`` makes of the error."""
        call = object()
        try:
            begin(call)
            self.run()
        except Exception as error:
            raise self.explain(error) from error
        finally:
            end(call)
