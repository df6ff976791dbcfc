"""What a record of our own must keep besides the type of each field, as trt-runtime demands it.

Cases that both packages are tested with: `docs/contract/records.json`.
"""

from collections.abc import Iterable, Sequence

from trt_export.engines.binding import Binding
from trt_export.engines.expressions import names_in
from trt_export.errors import EngineRecordError

SEPARATORS = frozenset("%@")


def check_bindings(inputs: Sequence[Binding], outputs: Sequence[Binding]) -> None:
    """Check names, bounds and shape expressions of all bindings.

    Raises:
        EngineRecordError: no binding on a side, a name twice, an input without `min <= opt <= max`, multiples without
            offsets or smaller than them, a shape that is no expression over the free dimensions of the inputs.
    """
    free = {
        f"i{index}d{axis}"
        for index, binding in enumerate(inputs)
        for axis, dim in enumerate(binding.shape)
        if dim == f"i{index}d{axis}"
    }
    for role, bindings in (("input", inputs), ("output", outputs)):
        _check_names([binding.name for binding in bindings], role)
        for binding in bindings:
            _check_shape(binding, role, free)
    for binding in inputs:
        _check_bounds(binding)
        _check_steps(binding)


def check_name(name: str) -> None:
    """Check the name of an engine.

    Raises:
        EngineRecordError: it is empty or has a `%`.
    """
    if not name or "%" in name:
        raise EngineRecordError(
            f"expected an engine's name without %, found {name!r:.80}; rename the engine"
        )


def check_target_platform(platform: str) -> None:
    """Check the target platform.

    Raises:
        EngineRecordError: it is empty.
    """
    if not platform:
        raise EngineRecordError(
            "expected a target platform such as linux_x86_64 in a record, found none; build the engine again"
        )


def check_aliases(
    aliases: Iterable[tuple[str, str, str]], inputs: Sequence[Binding], outputs: Sequence[Binding]
) -> None:
    """Check aliases, each an output, an input and a kind.

    Raises:
        EngineRecordError: an output or input that is not there, or a kind that is empty or has `%` or `@`.
    """
    for output, taken, kind in aliases:
        for name, bindings, role in ((output, outputs, "output"), (taken, inputs, "input")):
            names = [binding.name for binding in bindings]
            if name not in names:
                raise EngineRecordError(
                    f"aliased I/O names the {role} {name!r}; the engine's {role}s are {names}"
                )
        if not kind or SEPARATORS & set(kind):
            raise EngineRecordError(
                f"expected a kind of aliased I/O without % and @, found {kind!r:.80}"
            )


def _check_names(names: list[str], role: str) -> None:
    if not names:
        raise EngineRecordError(
            f"the engine has no {role}s, expected at least one; build the engine again"
        )
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise EngineRecordError(
            f"expected each {role} once, found {sorted(twice)} twice; rename one of them"
        )


def _check_shape(binding: Binding, role: str, free: set[str]) -> None:
    for dim in binding.shape:
        if isinstance(dim, int):
            continue
        try:
            unknown = names_in(dim) - free
        except EngineRecordError as error:
            raise EngineRecordError(f"{role} {binding.name!r}: {error}") from error
        if unknown:
            raise EngineRecordError(
                f"{role} {binding.name!r}: expected expressions over the free input dimensions"
                f" {sorted(free)}, found {sorted(unknown)} in {dim!r:.80}"
            )


def _check_bounds(binding: Binding) -> None:
    low, usual, high = binding.minimum, binding.optimum, binding.maximum
    if low is None or usual is None or high is None:
        raise EngineRecordError(
            f"input {binding.name!r} must have min, opt and max of every dimension; build the engine again"
        )
    for axis, (dim, least, best, most) in enumerate(
        zip(binding.shape, low, usual, high, strict=True)
    ):
        if isinstance(dim, int) and not least == best == most == dim:
            raise EngineRecordError(
                f"input {binding.name!r}: expected min = opt = max = {dim} in the static dimension {axis}, found"
                f" {least}, {best}, {most}"
            )
        if not least <= best <= most:
            raise EngineRecordError(
                f"input {binding.name!r}: expected min <= opt <= max in dimension {axis}, found {least}, {best}, {most}"
            )


def _check_steps(binding: Binding) -> None:
    if binding.multiple is None and binding.offset is None:
        return
    multiples, offsets = binding.multiple or (), binding.offset or ()
    steps = list(zip(multiples, offsets, strict=False))
    for axis, (multiple, offset) in enumerate(steps):
        if offset >= multiple or (isinstance(binding.shape[axis], int) and multiple != 1):
            raise EngineRecordError(
                f"input {binding.name!r}: expected 'offset' smaller than 'multiple', and 0 and 1 in a static dimension,"
                f" found {offset} and {multiple} in dimension {axis}"
            )
    if len(steps) != len(binding.shape):
        raise EngineRecordError(
            f"input {binding.name!r}: expected 'multiple' and 'offset' together, found"
            f" {binding.multiple} and {binding.offset}"
        )
