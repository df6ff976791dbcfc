"""The engine behind a delegate; what the native delegate calls to open, bind and run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import Any

import torch

from .. import _native
from ..checking import ShapeChecker
from ..errors import InputError
from ..executors.bound import Bound
from ..executors.memory import Region, copy
from ..info import DTYPES
from .dtypes import ENGINE_DTYPES
from .payload import info_from_payload
from .shared_executors import share_executor

# An argument as the native delegate has it: address, number of its dtype, sizes.
RawTensor = tuple[int, int, Sequence[int]]


class DelegateEngine:
    """One engine with its bindings in the order of a delegate's arguments."""

    def __init__(self, payload: Mapping[str, Any], plan: _native.Plan) -> None:
        """Open an engine, or share the executor of one with the same plan that is open already.

        Args:
            payload: the fields of the delegate's payload, as `_native.read_payload` gives them.
            plan: the plan in it; kept by an executor that reads its weights there.

        Raises:
            RecordError, PlanError: the payload is damaged.
            ExecutorUnavailableError: nothing here can run it.

        """
        found = info_from_payload(payload, plan.format, memoryview(plan).nbytes)
        self._info = found.info
        self._checker = ShapeChecker(self._info)
        # Where each binding of the record is among the delegate's inputs, or its outputs. (An output may
        # have the name of an input.)
        self._inputs = [found.inputs.index(binding.name) for binding in self._info.inputs]
        self._outputs = [found.outputs.index(binding.name) for binding in self._info.outputs]
        verify = _verify.get()
        if verify is None:
            verify = memoryview(plan).nbytes < VERIFIED_SIZE
        self._shared = share_executor(self._info, plan, verify=verify)
        self._executor = self._shared.executor

    def output_sizes(self, inputs: Sequence[RawTensor]) -> list[list[int]]:
        """Return the sizes of each output of the delegate; raises InputError."""
        tensors = [
            torch.empty(sizes, dtype=_dtype(number), device="meta")
            for _, number, sizes in (inputs[index] for index in self._inputs)
        ]
        sizes: list[list[int]] = [[] for _ in self._outputs]
        for index, (_, shape) in zip(self._outputs, self._checker.outputs(tensors), strict=True):
            sizes[index] = [int(size) for size in shape]
        return sizes

    def bind(self, inputs: Sequence[RawTensor], outputs: Sequence[RawTensor]) -> Bound:
        """Return what runs the engine on this memory; raises InputError or ExecutionError."""
        taken = [_region(inputs[index]) for index in self._inputs]
        given = [_region(outputs[index]) for index in self._outputs]
        for binding, region in zip(self._info.outputs, given, strict=True):
            if region.dtype != binding.torch_dtype:
                raise InputError(
                    f"delegate, output '{binding.name}': expected dtype {binding.torch_dtype}, found "
                    f"{region.dtype}; the program does not fit its engine: lower it again"
                )
        if self._info.aliased_io:
            return self._bind_aliased(taken, given)
        return self._executor.bind(taken, given)

    def _bind_aliased(self, inputs: list[Region], outputs: list[Region]) -> Bound:
        """Bind an engine some of whose outputs are written over inputs, wherever the outputs are.

        An executor that knows nothing of aliases may read the old state after it has written the new one,
        so it writes to memory of its own, and the result is copied from there.
        """
        position = {binding.name: index for index, binding in enumerate(self._info.outputs)}
        source = {binding.name: index for index, binding in enumerate(self._info.inputs)}
        results = list(outputs)
        own: list[torch.Tensor] = []
        copies: list[tuple[Region, Region]] = []
        for alias in self._info.aliased_io:
            index, state = position[alias.output], inputs[source[alias.input]]
            given = outputs[index]
            if (given.dtype, given.shape) != (state.dtype, state.shape):
                raise InputError(
                    f"delegate, output '{alias.output}': expected the dtype {state.dtype} and shape "
                    f"{list(state.shape)} of input '{alias.input}', whose memory it shares, found "
                    f"{given.dtype} and {list(given.shape)}; build the engine again"
                )
            if self._executor.ALIASES_IN_PLACE:
                results[index] = state
            else:
                own.append(torch.empty(given.shape, dtype=given.dtype))
                results[index] = Region.of(own[-1])
            copies += [
                (results[index], target)
                for target in {state, given}
                if target.address != results[index].address
            ]
        bound = self._executor.bind(inputs, results)
        return replace(bound, run=partial(_run_and_copy, bound.run, copies), keeps=(bound, own))


def _run_and_copy(run: Callable[[], object], copies: Sequence[tuple[Region, Region]]) -> None:
    run()
    for result, target in copies:
        copy(result, target)


def register() -> None:
    """Have the native delegate open its engines here."""
    _native.register_delegate_engines(DelegateEngine)


# Reading more than this for its sha256 takes seconds: larger plans are verified when it is asked for.
VERIFIED_SIZE = 10**9

_verify: ContextVar[bool | None] = ContextVar("trt_runtime_verify", default=None)


@contextmanager
def verifying(verify: bool | None) -> Iterator[None]:
    """Verify the plans of delegates that are made meanwhile in this thread; None: those below 1 GB."""
    token = _verify.set(verify)
    try:
        yield
    finally:
        _verify.reset(token)


def _region(tensor: RawTensor) -> Region:
    address, number, sizes = tensor
    return Region(address, _dtype(number), tuple(sizes))


def _dtype(number: int) -> torch.dtype:
    dtype = ENGINE_DTYPES.get(number)
    if dtype is None:
        known = ", ".join(DTYPES)
        raise InputError(
            f"delegate: expected arguments of one of the dtypes {known}, found ExecuTorch's dtype "
            f"number {number}; the program does not fit its engine: lower it again"
        )
    return dtype
