"""Translations of ours, where those of torch.onnx compute other numbers than PyTorch.

Each file has one kind of fault and says in its functions what torch.onnx's translation does wrong. A converter is
called like one of torch.onnx (ONNX values for tensors, Python numbers for scalars, under onnxscript's evaluator) and
returns ONNX values, or `NotImplemented` where torch.onnx's own is right. It raises `NoExactTranslationError` where
ONNX has no right translation: the operator then stays in PyTorch.
"""

from types import MappingProxyType
from typing import Any

from trt_export.compiling.converters import (
    attention,
    clipping,
    comparisons,
    constants,
    division,
    doubles,
    exponentials,
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
        **exponentials.CONVERTERS,
        **powers.CONVERTERS,
        **reductions.CONVERTERS,
        **signs.CONVERTERS,
        **whole_reductions.CONVERTERS,
    }
)

_WRAPPERS = {**attention.WRAPPERS, **scattering.WRAPPERS}


def converter(target: Any, upstream: Converter | None) -> Converter:
    """Return the converter to use for an operator, given that of torch.onnx, None if it has none."""
    if target in _WRAPPERS and upstream is not None:
        return exact_numbers(_WRAPPERS[target](exact_numbers(upstream)))
    ours = CONVERTERS.get(target)
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


__all__ = ["CONVERTERS", "Converter", "NoExactTranslationError", "converter"]
