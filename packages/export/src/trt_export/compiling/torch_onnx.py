"""The one place that calls torch.onnx's exporter: its registry of converters, its decompositions, its translation.

`torch.onnx.export` would build the registry anew (0.7 s) and decompose and trace the program again on every call, and
so rename the nodes that its error messages speak of. The functions used here are those that it calls; they are not
public, and trt-export is bound to one minor version of torch for them.
"""

import dataclasses
import functools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.onnx._internal._lazy_import import onnxscript_apis  # type: ignore[attr-defined]
from torch.onnx._internal.exporter import _core, _decomp, _registration
from torch.onnx._internal.fx import passes
from torch.onnx._internal.fx.passes import type_promotion

from trt_export.compiling.converters import (
    CONVERTERS,
    NAMED_CONVERTERS,
    complex_converters,
    converter,
)
from trt_export.compiling.simplify import simplify

OPSET = 20
"""Of the ONNX models: Gelu and LayerNormalization are operators of their own, and every builder here reads it."""


def _registry() -> _registration.ONNXRegistry:
    """Return the converters of what is registered now: importing a library may add operators that have some."""
    return _registry_with(frozenset(filter(_is_registered, _library_operators())))


@functools.cache
def _library_operators() -> tuple[str, ...]:
    """Return the operators that have a converter in onnxscript, and that libraries other than torch's core register."""
    names = {meta.qualified_name.partition(".")[0] for meta in onnxscript_apis.get_torchlib_ops()}
    always = ("aten", "prims", "_operator", "math")
    return tuple(name for name in sorted(names) if name.partition("::")[0] not in always)


def _is_registered(name: str) -> bool:
    namespace, _, operator = name.partition("::")
    return hasattr(getattr(torch.ops, namespace), operator)


@functools.lru_cache(maxsize=1)
def _registry_with(library_operators: frozenset[str]) -> _registration.ONNXRegistry:
    with _quiet():
        registry = _registration.ONNXRegistry.from_torchlib(opset_version=OPSET)
    real: dict[Any, Callable[..., Any]] = {}
    complex_ones: dict[Any, Callable[..., Any]] = {}
    for metas in registry.functions.values():
        for position, meta in enumerate(metas):
            if meta.is_complex:
                complex_ones.setdefault(meta.fx_target, meta.onnx_function)
                continue
            used = converter(meta.fx_target, meta.onnx_function)
            real.setdefault(meta.fx_target, used)
            # A copy: torch.onnx shares these objects between registries.
            metas[position] = dataclasses.replace(meta, onnx_function=used)
    for target in CONVERTERS:
        if not registry.is_registered(target):
            registry.register_op(target, converter(target, None))
    for target, function in complex_converters(real, complex_ones).items():
        registry.register_op(target, function, is_complex=True)  # what is registered last is used
    return registry


Table = dict[Any, Callable[..., Any]]


def decomposition_tables() -> Iterator[Table]:
    """Go through tables for `run_decompositions`, the best first.

    The first one leaves every operator whole that torch.onnx can convert and takes the others apart by any means; the
    second takes apart only what torch.export itself would; the third nothing, and only makes the program functional.
    """
    table = _onnx_table(_registry())
    yield table
    usual = torch.export.default_decompositions()
    yield {target: function for target, function in table.items() if target in usual}
    yield {}


@functools.lru_cache(maxsize=1)
def _onnx_table(registry: _registration.ONNXRegistry) -> Table:
    converted = set(_decomp.get_onnx_implemented_overloads(registry))
    table: Table = _decomp.create_onnx_friendly_decomposition_table(converted)
    return table


def has_converter(target: torch._ops.OpOverload, *, of_complex: bool = False) -> bool:
    """Whether there is a converter of the operator, at least with some arguments; `of_complex`: of complex ones."""
    registry = _registry()
    if not registry.is_registered(target) and target._schema.name in NAMED_CONVERTERS:
        registry.register_op(target, converter(target, None))
    return any(meta.is_complex == of_complex for meta in registry.get_decomps(target))


def promote_types(module: torch.fx.GraphModule) -> None:
    """Make implicit type promotion (`int_tensor + 1.5`) explicit in the graph, in place; ONNX has none."""
    promotion = passes.InsertTypePromotion(module, _promotion_table())
    promotion.interpreter = _Promoter(module, _promotion_table())
    promotion.run()
    for node in module.graph.find_nodes(op="call_function", target=_SCALAR_TENSOR):
        number, dtype = node.args[0], node.kwargs.get("dtype")
        if type(number) is int and dtype in _INTEGERS:
            node.update_arg(0, _wrapped(number, torch.iinfo(dtype)))


@functools.cache
def _promotion_table() -> type_promotion.TypePromotionTable:
    return type_promotion.TypePromotionTable()


class _Promoter(type_promotion._TypePromotionInterpreter):
    """Takes the values of nodes from their metadata; torch.onnx's computes each again, which takes seconds."""

    def run_node(self, n: torch.fx.Node) -> Any:
        if n.op != "call_function" or "val" not in n.meta:
            return super().run_node(n)
        rule = type_promotion.get_type_promotion_rule(n, self.type_promotion_table)
        if rule is not None:
            with self._set_current_node(n):
                self._maybe_promote_node(n, rule)
        return n.meta["val"]


_SCALAR_TENSOR = torch.ops.aten.scalar_tensor.default
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


def _wrapped(number: int, limits: torch.iinfo) -> int:
    """Return the number as PyTorch has it in a narrower dtype: `int32_tensor + 2**40` adds 0."""
    return (number - limits.min) % (limits.max - limits.min + 1) + limits.min


def translate(program: ExportedProgram) -> ir.Model:
    """Translate a decomposed program; the ONNX model refers to the program's weights and copies none.

    Each node of the result has the name of its source under `SOURCE_NODE` in its `metadata_props`.
    """
    with _quiet():
        model: ir.Model = _core._exported_program_to_onnx_program(
            program, registry=_registry()
        ).model
        for node in model.graph:
            if (source := node.meta.get("node")) is not None:
                node.metadata_props[SOURCE_NODE] = source.name
        model = onnxscript_apis.convert_version(model, OPSET)
        simplify(model)
    return model


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
