"""What a method of a `.pte` takes and gives, as its flatbuffer says, and why values do not fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..errors import ProgramError
from ..hints import hint
from .dtypes import PROGRAM_DTYPES
from .flatbuffer import MEND, Table
from .limits import InputLimits

# The positions in `union KernelTypes` of ExecuTorch's schema/program.fbs.
_NULL, _INT, _BOOL, _DOUBLE, _TENSOR = 1, 2, 3, 4, 5
_NUMBERS: Mapping[int, type] = {_INT: int, _BOOL: bool, _DOUBLE: float}
_STATIC = 0
# The memory that ExecuTorch's planner gives to mutated buffers that methods share.
SHARED_MEMORY = 2


@dataclass(frozen=True, slots=True)
class Value:
    """An input or output of a method. Of a kind that is not known here, only `kind` is set."""

    kind: int
    constant: float | None = None  # a number is baked in when the program is made
    dtype: torch.dtype | None = None
    sizes: tuple[int, ...] = ()  # the largest ones, if they may change
    is_static: bool = True
    is_missing: bool = False  # the program computes with a number that the file has no place for

    @property
    def is_number(self) -> bool:
        """Whether it is an int, a bool or a float, which has its value in the file."""
        return self.kind in _NUMBERS

    @property
    def is_none(self) -> bool:
        """Whether it is None."""
        return self.kind == _NULL

    def early_refusal(self, value: Any) -> str | None:
        """Say why a value must not reach ExecuTorch, which aborts the process for some.

        Whether a number is the one that was exported is left to ExecuTorch, which compares floats with a tolerance.
        """
        if self.kind == _TENSOR:
            if (
                isinstance(value, torch.Tensor)
                and value.dtype is self.dtype
                and value.shape == self.sizes
            ):
                return None
        elif isinstance(value, _NUMBERS.get(self.kind, ())) and (
            type(value) is not bool or self.kind == _BOOL
        ):
            return None
        return self.refusal(value)

    def refusal(self, value: Any) -> str | None:
        """Say what was expected, what is found and what mends it, if ExecuTorch does not take the value."""
        if self.kind == _TENSOR:
            return self._refuse_for_tensor(value)
        if self.is_missing:
            return (
                "expected no call of this program: its input is a number that may change, for which a .pte has no "
                "place; export it with a tensor instead, or with a number that stays the same, and lower it again"
            )
        if self.kind == _NULL:
            return None if value is None else f"expected None, found {_kind(value)}; pass None"
        if self.kind in (_INT, _BOOL, _DOUBLE):
            wanted = _NUMBERS[self.kind]
            if type(value) is wanted and value == self.constant:
                return None
            return (
                f"expected the {wanted.__name__} {self.constant!r}, which is baked into the program, found "
                f"{_kind(value)}{f' {value!r}' if isinstance(value, (int, float)) else ''}; pass that one, or export "
                "the program with a tensor in its place"
            )
        return (
            f"expected a value of ExecuTorch's kind {self.kind}, which cannot be given from Python, found "
            f"{_kind(value)}; export the program with tensors"
        )

    def _refuse_for_tensor(self, value: Any) -> str | None:
        if not isinstance(value, torch.Tensor):
            return f"expected a tensor {self._text()}, found {_kind(value)}; pass a tensor"
        if self.dtype is not None and value.dtype != self.dtype:
            name = str(self.dtype).removeprefix("torch.")
            mend = hint(f".to({self.dtype})", f".astype({name!r}) before numpy.savez")
            return f"expected dtype {self.dtype}, found {value.dtype}; convert it: {mend}"
        sizes = list(value.shape)
        if len(sizes) != len(self.sizes):
            return f"expected rank {len(self.sizes)} ({self._text()}), found rank {len(sizes)} ({sizes}); reshape it"
        if self.is_static and tuple(sizes) != self.sizes:
            return (
                f"expected the sizes {list(self.sizes)}, found {sizes}; reshape it, or export the program with "
                "dynamic shapes"
            )
        if value.numel() > math.prod(self.sizes):
            return (
                f"expected {self._text()}, found {sizes}; pass less at once, or export the program for larger "
                "sizes"
            )
        return None

    def _text(self) -> str:
        return f"of sizes {'' if self.is_static else 'up to '}{list(self.sizes)}"


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor in the memory of shared buffers; `name` is empty if the file does not name it."""

    name: str
    offset: int
    dtype: torch.dtype | None
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name!r} of {self.dtype} {list(self.sizes)}"


@dataclass(frozen=True, slots=True)
class Signature:
    """What a method takes and gives, and which memory it plans.

    Attributes:
        outputs: all outputs of the file, mutated inputs included.
        mutations: pairs of an output and the input whose new value it is.
        planned: the sizes of the method's memories in bytes; number 0 is unused.
        state: the tensors in the memory of shared buffers.
        names: of the inputs, in order; empty if the file does not have them (trt-export writes them from 0.4.0 on).
        limits: for each input the sizes that its dimensions may have, None for one that is no tensor; empty if the
            file does not have them (trt-export writes them from 0.4.0 on, for methods with dynamic inputs).

    """

    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...] = ()
    mutations: tuple[tuple[int, int], ...] = ()
    planned: tuple[int, ...] = ()
    state: tuple[Slot, ...] = ()
    names: tuple[str, ...] = ()
    limits: InputLimits = ()


def read_signature(
    method: Table,
    mutations: Sequence[tuple[int, int]] = (),
    names: Sequence[str] = (),
    limits: InputLimits = (),
) -> Signature:
    """Read an `ExecutionPlan`; raises what reading tables raises.

    Raises:
        ProgramError: a mutation names an output or input that the method does not have, not every input has a name
            of its own, or the limits are for other inputs.

    """
    indices, count = method.int32s(3), method.count(2)
    inputs = [read_value(method.table_at(2, index)) for index in indices]
    if any(value.kind == _NULL for value in inputs):
        used = _used_values(method)
        inputs = [
            replace(value, is_missing=value.kind == _NULL and index in used)
            for index, value in zip(indices, inputs, strict=True)
        ]
    if names and (len(names) != len(inputs) or len(set(names)) != len(names)):
        raise ProgramError(
            f"expected {len(inputs)} different names for the inputs, found {list(names)}; {MEND}"
        )
    if limits and not (
        len(limits) == len(inputs)
        and all(one is None or len(one) == _rank(v) for one, v in zip(limits, inputs, strict=True))
    ):
        raise ProgramError(
            f"expected the sizes of {len(inputs)} inputs, found those of {len(limits)} or of other ranks; {MEND}"
        )
    outputs = tuple(read_value(method.table_at(2, index)) for index in method.int32s(4))
    for output, source in mutations:
        if not (0 <= output < len(outputs) and 0 <= source < len(inputs)):
            raise ProgramError(
                f"expected mutated inputs among {len(inputs)} inputs and {len(outputs)} outputs, found input "
                f"{source} in output {output}; {MEND}"
            )
        before, after = inputs[source], outputs[output]
        if before.kind != _TENSOR or (before.dtype, before.sizes) != (after.dtype, after.sizes):
            raise ProgramError(
                f"expected output {output} to be input {source} with new values, found another dtype or other "
                f"sizes; {MEND}"
            )
    planned = method.int64s(8)
    slots = (
        [_slot(method.table_at(2, index)) for index in range(count)]
        if len(planned) > SHARED_MEMORY
        else []
    )
    return Signature(
        tuple(inputs),
        outputs,
        tuple(mutations),
        planned,
        tuple(slot for slot in slots if slot is not None),
        tuple(names),
        limits,
    )


def _rank(value: Value) -> int | None:
    return len(value.sizes) if value.kind == _TENSOR else None


def _used_values(method: Table) -> set[int]:
    """The values that an instruction reads or writes."""
    used: set[int] = set()
    for chain in method.tables(5):
        for instruction in chain.tables(2):
            kind, arguments = instruction.int8(0), instruction.table(1)
            if kind in (1, 2):  # a kernel or a delegate
                used.update(arguments.int32s(1))
            elif kind == 3:  # a move
                used.update((arguments.int32(0), arguments.int32(1)))
            else:  # a jump has a condition
                used.add(arguments.int32(0))
    return used


def _slot(value: Table) -> Slot | None:
    """The value's place in the memory of shared buffers; None if it is elsewhere."""
    if value.int8(0) != _TENSOR:
        return None
    tensor = value.table(1)
    place = tensor.optional_table(6)
    if place is None or place.uint32(0) != SHARED_MEMORY:
        return None
    extra = tensor.optional_table(9)
    return Slot(
        "" if extra is None else extra.text(1),
        place.uint32(1) | place.uint32(2) << 32,
        PROGRAM_DTYPES.get(tensor.int8(0)),
        tensor.int32s(2),
    )


def read_value(value: Table) -> Value:
    """Read an `EValue`; raises what reading tables raises."""
    kind = value.int8(0)
    if kind not in (_INT, _BOOL, _DOUBLE, _TENSOR):
        return Value(kind)
    table = value.table(1)
    if kind == _INT:
        return Value(kind, constant=table.int64(0))
    if kind == _BOOL:
        return Value(kind, constant=bool(table.int8(0)))
    if kind == _DOUBLE:
        return Value(kind, constant=table.float64(0))
    dtype = PROGRAM_DTYPES.get(table.int8(0))
    return Value(kind, dtype=dtype, sizes=table.int32s(2), is_static=table.int8(8) == _STATIC)


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__
