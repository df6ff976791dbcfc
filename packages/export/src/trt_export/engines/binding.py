"""One input or output of an engine."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Binding:
    """One input or output of an engine.

    `dtype` is the torch name without `torch.`. A dimension in `shape` is an int (static) or text: the name
    `i<input>d<dim>` or an expression over such names. `minimum`, `optimum` and `maximum` are the sizes of
    an input's profile, of the rank of `shape`; they are None for an output. `multiple` and `offset` are None unless
    a size must also be an integer times its multiple plus its offset.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    minimum: tuple[int, ...] | None = None
    optimum: tuple[int, ...] | None = None
    maximum: tuple[int, ...] | None = None
    multiple: tuple[int, ...] | None = None
    offset: tuple[int, ...] | None = None
