"""Checks the inputs of an engine against its record, for real tensors and for traced ones alike."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch._subclasses.fake_tensor import FakeTensor

from .errors import InputError, RecordError
from .expressions import Dim, Expression, compile_expression, dim_name
from .fields import INT64_MAX
from .info import Binding, EngineInfo


class ShapeChecker:
    """The record of one engine, prepared for the checks of every call."""

    def __init__(self, info: EngineInfo) -> None:
        self._info = info
        self._device = torch.device(info.device)
        self._inputs = [
            _Input(info.name, index, binding) for index, binding in enumerate(info.inputs)
        ]
        self._outputs = [(binding, _compile_shape(binding)) for binding in info.outputs]

    def outputs(self, inputs: Sequence[torch.Tensor]) -> list[tuple[Binding, list[Dim]]]:
        """Check ``inputs`` and return each output with its shape for them.

        Sizes may be SymInts: then what cannot be decided now becomes a guard or a runtime assertion of
        the program that is being traced.

        Raises:
            InputError: count, dtype, layout, device, rank or a size is not what the record says; the
                message names the binding, what was expected and what was found.

        """
        if len(inputs) != len(self._inputs):
            names = [binding.name for binding in self._info.inputs]
            raise InputError(
                f"engine '{self._info.name}': expected {len(names)} inputs {names}, found {len(inputs)}"
            )
        dims: dict[str, Dim] = {}
        for expected, tensor in zip(self._inputs, inputs, strict=True):
            expected.check_tensor(tensor, self._device)
            expected.bind(tensor, dims)
        for expected, tensor in zip(self._inputs, inputs, strict=True):
            expected.check_sizes(tensor, dims)
        return [
            (binding, self._output_shape(binding, shape, dims)) for binding, shape in self._outputs
        ]

    def _output_shape(
        self, binding: Binding, shape: Sequence[int | Expression], dims: dict[str, Dim]
    ) -> list[Dim]:
        sizes = [dim if isinstance(dim, int) else dim(dims) for dim in shape]
        for index, size in enumerate(sizes):
            if isinstance(size, int) and not 0 <= size <= INT64_MAX:
                raise RecordError(
                    f"engine '{self._info.name}', output '{binding.name}': expected a size from 0 to "
                    f"2**63 - 1 in dimension {index} ({binding.shape[index]}), found {size} for the input "
                    f"dimensions {dims}; build the engine again"
                )
        return sizes


class _Input:
    """One input binding, its expressions compiled."""

    def __init__(self, engine: str, index: int, binding: Binding) -> None:
        assert binding.min is not None
        assert binding.max is not None
        self._binding = binding
        self._where = f"engine '{engine}', input '{binding.name}' (index {index})"
        self._dtype = binding.torch_dtype
        self._shape = _compile_shape(binding)
        self._free = {
            dim: dim_name(index, dim)
            for dim, size in enumerate(binding.shape)
            if size == dim_name(index, dim)
        }
        self._bounds = list(zip(binding.min, binding.max, strict=True))
        self._steps = _steps(binding)

    def check_tensor(self, tensor: torch.Tensor, device: torch.device) -> None:
        if tensor.dtype != self._dtype:
            raise self._error(
                f"dtype {self._dtype}", f"{tensor.dtype}", f"convert it: .to({self._dtype})"
            )
        # Tensors without data are asked for shapes only. A traced one may be on the CPU although the
        # engine is not: a program exported where there is no GPU holds engines that were built ahead
        # of time for one, and is decomposed, exported again and lowered there. Running it checks.
        has_data = tensor.device.type != "meta" and not isinstance(tensor, FakeTensor)
        if tensor.device != device and has_data:
            raise self._error(f"device {device}", f"{tensor.device}", f"move it: .to('{device}')")
        if tensor.layout is not torch.strided:
            raise self._error("a dense tensor", f"{tensor.layout}", "convert it: .to_dense()")
        if tensor.dim() != len(self._shape):
            raise self._error(
                f"rank {len(self._shape)} and shape {self._shown_shape()}",
                f"rank {tensor.dim()} and shape {list(tensor.shape)}",
                "reshape it",
            )

    def bind(self, tensor: torch.Tensor, dims: dict[str, Dim]) -> None:
        for dim, name in self._free.items():
            dims[name] = tensor.size(dim)

    def check_sizes(self, tensor: torch.Tensor, dims: dict[str, Dim]) -> None:
        for index, (expected, (low, high)) in enumerate(
            zip(self._shape, self._bounds, strict=True)
        ):
            size = tensor.size(index)
            if isinstance(expected, int):
                self._require(size == expected, tensor, index, f"{expected}")
                continue
            if index not in self._free:
                value = expected(dims)
                self._require(size == value, tensor, index, f"{expected.text} = {value}")
            self._require(size >= low, tensor, index, f"{low} to {high}")
            self._require(size <= high, tensor, index, f"{low} to {high}")
            if step := self._steps.get(index):
                multiple, offset = step
                expected_size = f"a multiple of {multiple}" + (f" plus {offset}" if offset else "")
                self._require(size % multiple == offset, tensor, index, expected_size)

    def _require(
        self, condition: bool | torch.SymBool, tensor: torch.Tensor, index: int, expected: str
    ) -> None:
        if condition is True:
            return

        def error() -> InputError:
            return self._error(
                f"{expected} in dimension {index} of shape {self._shown_shape()}",
                f"{tensor.size(index)} in {list(tensor.shape)}",
                "pad or split it, or build the engine with other bounds",
            )

        if condition is False:
            raise error()
        torch._check(condition, lambda: str(error()))  # type: ignore[no-untyped-call]

    def _shown_shape(self) -> str:
        return f"[{', '.join(map(str, self._binding.shape))}]"

    def _error(self, expected: str, found: str, mend: str) -> InputError:
        return InputError(f"{self._where}: expected {expected}, found {found}; {mend}")


def _steps(binding: Binding) -> dict[int, tuple[int, int]]:
    """Return multiple and offset of the dimensions that not every size between their bounds fits."""
    if binding.multiple is None or binding.offset is None:
        return {}
    pairs = enumerate(zip(binding.multiple, binding.offset, strict=True))
    return {dim: pair for dim, pair in pairs if pair != (1, 0)}


def _compile_shape(binding: Binding) -> list[int | Expression]:
    return [dim if isinstance(dim, int) else compile_expression(dim) for dim in binding.shape]
