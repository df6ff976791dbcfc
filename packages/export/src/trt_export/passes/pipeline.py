"""A pipeline that knows its own order: each pass says what must have run before it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from trt_export.errors import PassOrderError

State = TypeVar("State", contravariant=True)  # A pass takes a state and gives none.


@dataclass(frozen=True)
class Pass(Generic[State]):
    """A step over a shared state; `after` are the names of all passes that it relies on."""

    name: str
    run: Callable[[State], None]
    after: tuple[str, ...] = ()


class Pipeline(Generic[State]):
    """Passes in an order that all of them allow; this is checked here, before any of them has run."""

    def __init__(self, passes: Sequence[Pass[State]]) -> None:
        """Put passes together.

        Raises:
            PassOrderError: the message lists every violation: a name used twice, a pass that another relies on
                and that is missing or comes later.
        """
        self.passes = tuple(passes)
        violations = list(_violations([(item.name, item.after) for item in self.passes]))
        if violations:
            raise PassOrderError(
                f"{len(violations)} violation{'s' if len(violations) > 1 else ''} of the order of passes"
                f" {', '.join(item.name for item in self.passes)}: {'; '.join(violations)}"
            )

    def run(
        self,
        state: State,
        on_pass: Callable[[str], None] = lambda name: None,
        on_start: Callable[[str, int, int], None] = lambda name, done, total: None,
    ) -> None:
        """Run all passes.

        Args:
            state: what they work on.
            on_pass: called with the name of each that has run.
            on_start: called with the name of each that is about to run, how many have run, and how many there are.
        """
        for index, item in enumerate(self.passes):
            on_start(item.name, index, len(self.passes))
            item.run(state)
            on_pass(item.name)


def _violations(passes: Sequence[tuple[str, tuple[str, ...]]]) -> list[str]:
    names = [name for name, _ in passes]
    found = []
    for position, (name, after) in enumerate(passes):
        earlier = names[:position]
        if name in earlier:
            found.append(f"{name!r} is there twice")
        for needed in after:
            if needed not in names:
                found.append(f"{name!r} needs {needed!r}, which is not there")
            elif needed not in earlier:
                where = "is itself" if needed == name else "comes later"
                found.append(f"{name!r} needs {needed!r} before it, which {where}")
    return found
