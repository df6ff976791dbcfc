"""Inputs to verify on: the examples, other sizes within the bounds, and values that examples seldom have."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram

from trt_export.compiling.bounds import DynamicBounds
from trt_export.compiling.verification.recording import example_inputs
from trt_export.engines.shapes import is_dynamic, size_of

EXAMPLE = "example inputs"
_MOST_INTEGER_INPUTS = 4  # that get a sample of large integers each


@dataclass(frozen=True)
class Sample:
    """Inputs by the name that the report gives them, made when they are needed.

    `cost` estimates the time of a run in multiples of a run on the examples.
    """

    name: str
    make: Callable[[], list[Any]]
    cost: float = 1.0


def samples(program: ExportedProgram, bounds: DynamicBounds) -> Iterator[Sample]:
    """Go through the samples of a program, the examples first.

    Raises:
        ValueError: the program has no example inputs.
    """
    examples = example_inputs(program)
    yield Sample(EXAMPLE, lambda: examples)
    yield from _other_sizes(program, bounds, examples)
    if _values_decide_steps(program):
        return
    yield from _other_values(examples)
    if not _values_decide_sizes(program):
        yield from _large_integers(program, examples)


def _other_sizes(
    program: ExportedProgram, bounds: DynamicBounds, examples: Sequence[Any]
) -> Iterator[Sample]:
    shapes = _shapes(program, examples)
    symbols = {
        symbol
        for shape in shapes
        for size in shape or ()
        for symbol in size.free_symbols
        if symbol in bounds.of_symbols
    }
    known = {symbol: bounds.of_symbols[symbol] for symbol in symbols}
    here = sum(value.numel() for value in examples if isinstance(value, torch.Tensor))
    made: list[dict[sympy.Symbol, int]] = [{symbol: b.opt for symbol, b in known.items()}]
    for name, sizes in (
        ("smallest sizes", {symbol: b.min for symbol, b in known.items()}),
        ("sizes up to twice the usual", {s: min(b.max, 2 * b.opt) for s, b in known.items()}),
        ("largest sizes", {symbol: b.max for symbol, b in known.items()}),
    ):
        if sizes in made:
            continue
        made.append(sizes)
        concrete = [
            None if shape is None else [int(size.xreplace(sizes)) for size in shape]
            for shape in shapes
        ]
        there = sum(
            sympy.prod(shape) if shape is not None else value.numel()
            for shape, value in zip(concrete, examples, strict=True)
            if isinstance(value, torch.Tensor)
        )
        yield Sample(
            name,
            lambda concrete=concrete: [  # type: ignore[misc]
                value if shape is None else _resized(value, shape)
                for shape, value in zip(concrete, examples, strict=True)
            ],
            cost=max(1.0, float(there) / max(here, 1)) ** 2,  # attention's, at the worst
        )


def _shapes(
    program: ExportedProgram, examples: Sequence[Any]
) -> list[tuple[sympy.Expr, ...] | None]:
    """Return the shapes of the user inputs that have dynamic dimensions; None for the others."""
    inputs = set(program.graph_signature.user_inputs)
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    shapes: list[tuple[sympy.Expr, ...] | None] = []
    for name, value in zip(program.graph_signature.user_inputs, examples, strict=True):
        fake = nodes[name].meta.get("val") if isinstance(name, str) and name in inputs else None
        if (
            isinstance(value, torch.Tensor)
            and isinstance(fake, torch.Tensor)
            and any(is_dynamic(size) for size in fake.shape)
        ):
            shapes.append(tuple(size_of(size) for size in fake.shape))
        else:
            shapes.append(None)
    return shapes


def _resized(value: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """Return the tensor cut off or repeated: what was in range as an index still is."""
    for dimension, size in enumerate(shape):
        if size and not value.shape[dimension]:
            return torch.zeros(list(shape), dtype=value.dtype, device=value.device)
        index = torch.arange(size, device=value.device) % max(value.shape[dimension], 1)
        value = value.index_select(dimension, index)
    return value


def _other_values(examples: Sequence[Any]) -> Iterator[Sample]:
    """Change all tensors; where PyTorch refuses it, because integers are indices, all but the integers."""
    kinds: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "zeros and False": torch.zeros_like,
        "negative numbers and True": _negative,
        "equal numbers": _equal,
        "ties": _ties,
    }
    tensors = [value for value in examples if isinstance(value, torch.Tensor)]
    is_mixed = any(map(_is_integer, tensors)) and not all(map(_is_integer, tensors))
    for name, change in kinds.items():
        yield Sample(name, _changed(examples, change, lambda value: True))
        if is_mixed:
            yield Sample(
                f"{name}, integers as in the examples",
                _changed(examples, change, lambda value: not _is_integer(value)),
            )
    if any(map(_is_mask, tensors)):
        yield Sample("rows that a mask empties", _changed(examples, _emptied, _is_mask))


def _large_integers(program: ExportedProgram, examples: Sequence[Any]) -> Iterator[Sample]:
    names = list(program.graph_signature.user_inputs)
    integers = [
        position
        for position, value in enumerate(examples)
        if isinstance(value, torch.Tensor) and _is_integer(value)
    ]
    for position in integers[:_MOST_INTEGER_INPUTS]:
        chosen = examples[position]
        yield Sample(
            f"large integers in {names[position]}",
            _changed(examples, _large, lambda value, chosen=chosen: value is chosen),  # type: ignore[misc]
        )


def _changed(
    examples: Sequence[Any],
    change: Callable[[torch.Tensor], torch.Tensor],
    applies: Callable[[torch.Tensor], bool],
) -> Callable[[], list[Any]]:
    return lambda: [
        change(value) if isinstance(value, torch.Tensor) and applies(value) else value
        for value in examples
    ]


def _negative(value: torch.Tensor) -> torch.Tensor:
    if value.dtype is torch.bool:
        return torch.ones_like(value)
    if value.dtype is torch.uint8:
        return value
    return -value.abs() - (value == 0).to(value.dtype)


def _equal(value: torch.Tensor) -> torch.Tensor:
    return value.flatten()[:1].expand(value.numel()).reshape(value.shape).clone()


def _ties(value: torch.Tensor) -> torch.Tensor:
    few: Sequence[float]
    if value.dtype is torch.bool:
        few = [True, False]
    elif _is_integer(value):
        few = value.flatten()[:2].tolist() or [0]
    else:
        few = [0.5, 1.5, -0.5, 1.5, 2.5, -1.5, 0.5, -2.5]
    return _repeated(few, value)


def _large(value: torch.Tensor) -> torch.Tensor:
    limits = torch.iinfo(value.dtype)
    beyond = [2**53 + 1, 2**31 + 5, 2**31 - 1, 2**24 + 1, limits.max // 2 + 1, 7]
    signed = [number * sign for number in beyond for sign in (1, -1)]
    return _repeated([n for n in signed if limits.min < n <= limits.max], value)


def _repeated(numbers: Sequence[float], like: torch.Tensor) -> torch.Tensor:
    made = torch.tensor(numbers, dtype=like.dtype, device=like.device)
    index = torch.arange(like.numel(), device=like.device) % len(numbers)
    return made[index].reshape(like.shape)


def _is_integer(value: torch.Tensor) -> bool:
    return not (value.is_floating_point() or value.is_complex() or value.dtype is torch.bool)


def _is_mask(value: torch.Tensor) -> bool:
    """Whether it may be a mask: booleans, integers that are 0 or 1, or numbers with minus infinity among them."""
    if not value.dim() or not value.numel():
        return False
    if value.dtype is torch.bool:
        return True
    if _is_integer(value):
        return bool(((value == 0) | (value == 1)).all())
    return value.is_floating_point() and bool((value <= -1e4).any())


def _emptied(value: torch.Tensor) -> torch.Tensor:
    """Return the mask with the first of its rows empty and all others full."""
    hidden, shown = (float(value.min()), 0) if value.is_floating_point() else (0, 1)
    made = torch.full_like(value, shown)
    rows = made.reshape(-1, value.shape[-1])
    rows[0] = hidden
    return rows.reshape(value.shape)


def _values_decide_steps(program: ExportedProgram) -> bool:
    """Whether it has a loop, which other values than those of the examples may never end."""
    return any(
        node.target is torch.ops.higher_order.while_loop
        for module in program.graph_module.modules()
        if isinstance(module, torch.fx.GraphModule)
        for node in module.graph.nodes
    )


def _values_decide_sizes(program: ExportedProgram) -> bool:
    """Whether a large integer may become the size of a tensor, and so exhaust the memory."""
    return any(
        isinstance(node.target, torch._ops.OpOverload)
        and not {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}.isdisjoint(
            node.target.tags
        )
        for node in program.graph.nodes
    )
