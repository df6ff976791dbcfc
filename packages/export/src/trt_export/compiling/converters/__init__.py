"""Translations of ours, where those of torch.onnx compute other numbers than PyTorch.

Each file has one kind of fault and says in its functions what torch.onnx's translation does wrong. A converter is
called like one of torch.onnx (ONNX values for tensors, Python numbers for scalars, under onnxscript's evaluator) and
returns ONNX values, or `NotImplemented` where torch.onnx's own is right. It raises `NoExactTranslationError` where
ONNX has no right translation: the operator then stays in PyTorch.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from torch._ops import OpOverload

from trt_export.compiling.converters import (
    attention,
    clipping,
    comparisons,
    constants,
    division,
    doubles,
    experts,
    exponentials,
    fourier,
    pairs,
    powers,
    reductions,
    scattering,
    signs,
    whole_reductions,
)
from trt_export.compiling.converters.double import exact_numbers
from trt_export.compiling.converters.values import Converter, Converters, NoExactTranslationError

CONVERTERS: Converters = MappingProxyType(
    {
        **clipping.CONVERTERS,
        **comparisons.CONVERTERS,
        **constants.CONVERTERS,
        **division.CONVERTERS,
        **doubles.CONVERTERS,
        **experts.CONVERTERS,
        **exponentials.CONVERTERS,
        **powers.CONVERTERS,
        **reductions.CONVERTERS,
        **signs.CONVERTERS,
        **whole_reductions.CONVERTERS,
    }
)

NAMED_CONVERTERS = experts.NAMED_CONVERTERS
"""Converters of operators that other packages register, by their names: these may be imported later, or never."""

_WRAPPERS = {
    **attention.WRAPPERS,
    **fourier.WRAPPERS,
    **pairs.WRAPPERS,
    **scattering.WRAPPERS,
}


def converter(target: Any, upstream: Converter | None) -> Converter:
    """Return the converter to use for an operator, given that of torch.onnx, None if it has none."""
    if target in _WRAPPERS and upstream is not None:
        return exact_numbers(_WRAPPERS[target](exact_numbers(upstream)))
    ours = CONVERTERS.get(target)
    if ours is None and isinstance(target, OpOverload):
        ours = NAMED_CONVERTERS.get(target._schema.name)
    if ours is None:
        assert upstream is not None
        return exact_numbers(upstream)

    def convert(*args: Any, **kwargs: Any) -> Any:
        result = ours(*args, **kwargs)
        if result is not NotImplemented:
            return result
        if upstream is None:
            raise NoExactTranslationError("torch.onnx has no converter for it with these arguments")
        return upstream(*args, **kwargs)

    return exact_numbers(convert)


def complex_converters(
    for_real: Mapping[Any, Converter], upstream: Mapping[Any, Converter]
) -> dict[Any, Converter]:
    """Return the converters of calls with complex arguments, given ours for real ones and torch.onnx's for complex."""
    made = {target: exact_numbers(convert) for target, convert in upstream.items()}
    for target, convert in pairs.PAIRS.items():
        made[target] = exact_numbers(convert)
    for target, positions in pairs.BY_PARTS.items():
        if target in for_real:
            made[target] = exact_numbers(pairs.by_parts(for_real[target], positions))
    for target, wrapper in fourier.WRAPPERS.items():
        if target in upstream:
            made[target] = exact_numbers(wrapper(exact_numbers(upstream[target])))
    return made


__all__ = [
    "CONVERTERS",
    "NAMED_CONVERTERS",
    "Converter",
    "NoExactTranslationError",
    "complex_converters",
    "converter",
]
