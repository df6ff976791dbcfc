"""Decomposes a program: node by node where that is the same, and else by `run_decompositions`."""

import copy
import dataclasses
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram, ModuleCallEntry
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from trt_export.compiling import torch_onnx
from trt_export.compiling.decomposition.functional import FunctionalCopy, computations
from trt_export.compiling.decomposition.templates import NotAlikeError, Templates
from trt_export.compiling.support import values_of
from trt_export.errors import UnsupportedProgramError
from trt_export.symbols import only_symbols
from trt_export.upstream_errors import error_text

_log = logging.getLogger("trt_export")

Table = Mapping[Any, Callable[..., Any]]


def decompose(program: ExportedProgram) -> ExportedProgram:
    """Decompose with the table that keeps most operators whole; some operators it breaks need a smaller one.

    The source is not changed. Gradients are off: with them, torch takes more operators apart.

    Raises:
        UnsupportedProgramError: torch cannot decompose it.
    """
    failures: dict[str, Exception] = {}
    with only_symbols([program]), torch.no_grad():
        for number, table in enumerate(torch_onnx.decomposition_tables()):
            try:
                return _decompose(program, table, number)
            except MemoryError:
                raise
            except Exception as error:  # decompositions raise whatever they stumble on
                failures.setdefault(error_text(error), error)
                _log.info("decompositions failed, using fewer: %s", error_text(error))
    *_, last = failures.values()
    raise UnsupportedProgramError(
        f"torch cannot decompose the program, found {'; with fewer decompositions '.join(failures)}: "
        + _way_out(" ".join(failures))
    ) from last


def _way_out(failures: str) -> str:
    if "is mutated in the forward method" in failures:
        return "register the tensor that the model changes as a buffer (register_buffer), and export it again"
    if "expected compiled_fn to be GraphModule" in failures:
        return (
            "export it with torch.export.export(..., strict=True), which the masks of transformers' static cache need,"
            " or without torch.vmap and control flow in the model"
        )
    return "export it again with torch.export.export(..., strict=True), or under torch.no_grad()"


_TEMPLATES: dict[int, Templates] = {}


def _decompose(program: ExportedProgram, table: Table, number: int) -> ExportedProgram:
    """Decompose with one table, which has a number."""
    templates = _TEMPLATES.get(number)
    if templates is None or templates.table != table:  # a library was imported in between
        templates = _TEMPLATES[number] = Templates(table)
    try:
        return by_nodes(program, templates)
    except MemoryError:
        raise
    except Exception as error:  # whatever it is, torch's own way may do
        _log.info("the program is decomposed as a whole: %s", error_text(error))
    decomposed: ExportedProgram = program.run_decompositions(dict(table))
    return decomposed


def by_nodes(program: ExportedProgram, templates: Templates) -> ExportedProgram:
    """Return what `run_decompositions` would, but for the names of nodes, which stay.

    Raises:
        NotAlikeError: nodes depend on each other in a way that only `run_decompositions` follows.
        Exception: what torch raises for single operators.
    """
    _require_plain(program)
    graph = program.graph
    nodes = {node.name: node for node in graph.find_nodes(op="placeholder")}
    users = [nodes[name] for name in program.graph_signature.user_inputs if name in nodes]
    copied = FunctionalCopy(graph, templates.of(program, computations(graph.nodes)), users)
    values = [
        copied.of(value) if isinstance(value, Node) else value
        for value in graph.output_node().args[0]
    ]
    changes, changed_specs = _changes(program, copied.changed(), values)
    specs = [
        dataclasses.replace(spec, arg=type(spec.arg)(name=value.name))
        if isinstance(value, Node)
        else spec
        for spec, value in zip(program.graph_signature.output_specs, values, strict=True)
    ]
    copied.graph.output((*changes, *values))
    copied.graph.eliminate_dead_code()
    module = GraphModule({}, copied.graph)
    module.meta.update(program.graph_module.meta)
    return ExportedProgram(
        root=module,
        graph=copied.graph,
        graph_signature=ExportGraphSignature(
            [copy.copy(spec) for spec in program.graph_signature.input_specs],
            [*changed_specs, *specs],
        ),
        state_dict=dict(program.state_dict),
        range_constraints=dict(program.range_constraints),
        module_call_graph=_renamed(program, copied),
        example_inputs=program.example_inputs,
        constants=dict(program.constants),
    )


def _renamed(program: ExportedProgram, copied: FunctionalCopy) -> list[ModuleCallEntry]:
    """Return the signature of the whole program, with the names of the copies."""
    nodes = {node.name: node for node in program.graph.nodes}
    entries: list[ModuleCallEntry] = copy.deepcopy(program.module_call_graph)
    for entry in entries[:1]:
        if entry.signature is not None:
            for argument in (*entry.signature.inputs, *entry.signature.outputs):
                if (node := nodes.get(getattr(argument, "name", ""))) is not None:
                    argument.name = copied.of(node).name
    return entries


def _require_plain(program: ExportedProgram) -> None:
    """Raise NotAlikeError for what is not in single nodes."""
    if any(entry.signature is not None for entry in program.module_call_graph[1:]):
        raise NotAlikeError("it keeps signatures of modules inside")
    for tensor in (*program.state_dict.values(), *program.constants.values()):
        if isinstance(tensor, torch.Tensor) and type(tensor) not in _PLAIN:
            raise NotAlikeError(f"it has a {type(tensor).__name__} as a weight")
    for node in program.graph.nodes:
        if any(free_unbacked_symbols(value) for value in values_of(node) if value is not None):
            raise NotAlikeError(f"sizes depend on values that are known when it runs: {node}")


_PLAIN = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def _changes(
    program: ExportedProgram, changed: Mapping[Node, Node], values: Sequence[object]
) -> tuple[list[Node], list[OutputSpec]]:
    """Return the last values of inputs and buffers that are changed in place, and their output specifications."""
    specs = {getattr(spec.arg, "name", None): spec for spec in program.graph_signature.input_specs}
    tensors = {**program.state_dict, **program.constants}
    nodes: list[Node] = []
    made: list[OutputSpec] = []
    for node, value in changed.items():
        spec = specs[node.name]
        if spec.kind is InputKind.BUFFER:
            assert spec.target is not None
            kind, target = OutputKind.BUFFER_MUTATION, spec.target
            if _shares_memory(tensors, target):
                raise NotAlikeError(
                    f"it changes {target}, which shares its memory with another buffer"
                )
        elif spec.kind is InputKind.USER_INPUT:
            kind, target = OutputKind.USER_INPUT_MUTATION, node.name
        else:
            raise NotAlikeError(f"it changes {node}")
        if value in values or value in nodes:
            raise NotAlikeError(f"it returns {node}, which it changes in place")
        value = _copied_value(value, [*nodes, *values])
        nodes.append(value)
        made.append(OutputSpec(kind, TensorArgument(value.name), target))
    return nodes, made


def _copied_value(value: Node, taken: Sequence[object]) -> Node:
    """Return what a buffer is a copy of, where nothing else is done with the copy."""
    if value.target is not torch.ops.aten.copy.default or value.users:
        return value
    copied = value.args[1]
    if not isinstance(copied, Node) or copied.op == "placeholder" or copied in taken:
        return value
    one, other = copied.meta["val"], value.meta["val"]
    is_same = one.dtype is other.dtype and one.device == other.device and one.shape == other.shape
    return copied if is_same else value


def _shares_memory(tensors: Mapping[str, Any], name: str) -> bool:
    own = tensors[name].untyped_storage().data_ptr()
    return own != 0 and any(
        isinstance(other, torch.Tensor) and other.untyped_storage().data_ptr() == own
        for key, other in tensors.items()
        if key != name
    )
