"""The one place that calls torch.onnx's exporter: its registry of converters, its decompositions, its translation.

`torch.onnx.export` would build the registry anew (0.7 s) and decompose and trace the program again on every call, and
so rename the nodes that its error messages speak of. The functions used here are those that it calls; they are not
public, and trt-export is bound to one minor version of torch for them.
"""

import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.onnx._internal._lazy_import import onnxscript_apis  # type: ignore[attr-defined]
from torch.onnx._internal.exporter import _core, _decomp, _fx_passes, _registration

OPSET = 20
"""Of the ONNX models: Gelu and LayerNormalization are operators of their own, and every builder here reads it."""


@functools.cache
def _registry() -> _registration.ONNXRegistry:
    with _quiet():
        return _registration.ONNXRegistry.from_torchlib(opset_version=OPSET)


Table = dict[Any, Callable[..., Any]]


def decomposition_tables() -> Iterator[Table]:
    """Go through tables for `run_decompositions`, the best first.

    The first one leaves every operator whole that torch.onnx can convert and takes the others apart by any means; the
    second takes apart only what torch.export itself would; the third nothing, and only makes the program functional.
    """
    yield _onnx_table()
    usual = torch.export.default_decompositions()
    yield {target: function for target, function in _onnx_table().items() if target in usual}
    yield {}


@functools.cache
def _onnx_table() -> Table:
    converted = set(_decomp.get_onnx_implemented_overloads(_registry()))
    table: Table = _decomp.create_onnx_friendly_decomposition_table(converted)
    return table


def has_converter(target: torch._ops.OpOverload) -> bool:
    """Whether torch.onnx can convert the operator, at least with some arguments."""
    return _registry().is_registered(target)


def promote_types(module: torch.fx.GraphModule) -> None:
    """Make implicit type promotion (`int_tensor + 1.5`) explicit in the graph, in place; ONNX has none."""
    _fx_passes.insert_type_promotion_nodes(module)


def translate(program: ExportedProgram) -> ir.Model:
    """Translate a decomposed program; the ONNX model refers to the program's weights and copies none.

    Each node of the result has the name of its source under `SOURCE_NODE` in its `metadata_props`.
    """
    with _quiet():
        model = _core._exported_program_to_onnx_program(program, registry=_registry()).model
        for node in model.graph:
            if (source := node.meta.get("node")) is not None:
                node.metadata_props[SOURCE_NODE] = source.name
        model = onnxscript_apis.convert_version(model, OPSET)
        optimized: ir.Model = onnxscript_apis.optimize(model)
    return optimized


SOURCE_NODE = "trt_export.source_node"


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence notes about packages and patterns that have nothing to do with the program."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
