"""Makes the ONNX model of a partition, with pinned names, and says which node is to blame if that fails."""

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir
from torch.fx import Node
from torch.onnx._internal.exporter._core import torch_dtype_to_onnx_dtype

from trt_export.builders import OnnxFile
from trt_export.compiling import torch_onnx
from trt_export.compiling.converters import NoExactTranslationError
from trt_export.compiling.subprogram import CannotCut, Source, Subprogram, cut_out


@dataclass
class OnnxPartition:
    """The ONNX model of a partition; inputs are named `in_0`, ..., outputs `out_0`, ... in the sub-program's order."""

    subprogram: Subprogram
    file: OnnxFile
    origins: dict[str, Node]
    """The nodes of the program by the names of the ONNX nodes made from them."""


def convert(source: Source, nodes: Sequence[Node]) -> OnnxPartition:
    """Cut the nodes out and translate them.

    Raises:
        CannotCut: with the nodes that torch.onnx, or the rules of `cut_out`, do not allow in an engine.
    """
    subprogram = cut_out(source, nodes)
    try:
        torch_onnx.promote_types(subprogram.program.graph_module)
        model = torch_onnx.translate(subprogram.program)
    except MemoryError:
        raise
    except Exception as error:  # whatever torch.onnx stumbles on, the program still runs in PyTorch
        reason = _reason(error)
        named = _named_node(error, subprogram) or _first_failing(source, nodes)
        raise CannotCut({named: reason}) from error
    _pin_names(model, subprogram)
    origins = _name_nodes(model, subprogram)
    return OnnxPartition(subprogram, OnnxFile(model), origins)


def _named_node(error: BaseException, subprogram: Subprogram) -> Node | None:
    """Return the node that the exporter was translating when it failed."""
    cause: BaseException | None = error
    while cause is not None:
        match = re.search(r"translating node %(\w+) ", str(cause))
        if match and match[1] in subprogram.origins:
            return subprogram.origins[match[1]]
        cause = cause.__cause__
    return None


def _reason(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, NoExactTranslationError):
        return str(error)
    first_line = next(iter(str(error).strip().splitlines()), "")
    return f"torch.onnx cannot convert it: {type(error).__name__}: {first_line}"


def _first_failing(source: Source, nodes: Sequence[Node]) -> Node:
    """Find the node whose addition makes the translation fail: the error named none."""

    def fails(some: Sequence[Node]) -> bool:
        try:
            subprogram = cut_out(source, some)
            torch_onnx.promote_types(subprogram.program.graph_module)
            torch_onnx.translate(subprogram.program)
        except CannotCut:
            return False
        except MemoryError:
            raise
        except Exception:
            return True
        return False

    return first_failing(nodes, fails)


def first_failing(nodes: Sequence[Node], fails: Callable[[tuple[Node, ...]], bool]) -> Node:
    """Find, by halving, the node at which `fails` begins to be true of the nodes up to it."""
    operators = [node for node in nodes if node.target is not operator.getitem]
    low, high = 1, len(operators)
    while low < high:
        middle = (low + high) // 2
        if fails(with_results(nodes, operators[:middle])):
            high = middle
        else:
            low = middle + 1
    return operators[low - 1]


def with_results(nodes: Sequence[Node], operators: Sequence[Node]) -> tuple[Node, ...]:
    """Return the operators and those `nodes` that take single results out of theirs, in the order of `nodes`."""
    chosen = set(operators)
    return tuple(
        node
        for node in nodes
        if node in chosen or (node.target is operator.getitem and node.all_input_nodes[0] in chosen)
    )


def _pin_names(model: ir.Model, subprogram: Subprogram) -> None:
    """Name inputs and outputs by position, and give every output a node and the dtype that it has in PyTorch.

    Type promotion makes `abs`, `sum` and others of float16 return float32: inside, users convert it back.
    """
    graph = model.graph
    assert len(graph.inputs) == len(subprogram.inputs)
    assert len(graph.outputs) == len(subprogram.outputs)
    seen = {id(value) for value in (*graph.inputs, *graph.initializers.values())}
    for position, (value, node) in enumerate(
        zip(tuple(graph.outputs), subprogram.outputs, strict=True)
    ):
        dtype = torch_dtype_to_onnx_dtype(node.meta["val"].dtype)
        if id(value) in seen or value.dtype != dtype:
            # The optimizer found an output to be an input or another output: naming it would rename that one.
            kind = (
                ("Identity", [])
                if value.dtype == dtype
                else ("Cast", [ir.AttrInt64("to", int(dtype))])
            )
            extra = ir.Node(
                "", kind[0], [value], kind[1], name=f"node_{kind[0].lower()}_out_{position}"
            )
            extra.metadata_props[torch_onnx.SOURCE_NODE] = node.name
            extra.outputs[0].shape, extra.outputs[0].dtype = value.shape, dtype
            graph.append(extra)
            graph.outputs[position] = extra.outputs[0]
        seen.add(id(graph.outputs[position]))
    pinned = {f"in_{i}" for i in range(len(graph.inputs))} | {
        f"out_{i}" for i in range(len(graph.outputs))
    }
    ends = {id(value) for value in (*graph.inputs, *graph.outputs)}
    for value in [v for v in _values(graph) if v.name in pinned and id(v) not in ends]:
        value.name = f"inner.{value.name}"
    for position, value in enumerate(graph.inputs):
        value.name = f"in_{position}"
    for position, value in enumerate(graph.outputs):
        value.name = f"out_{position}"


def _values(graph: ir.Graph) -> list[ir.Value]:
    return [*graph.initializers.values(), *(output for node in graph for output in node.outputs)]


def _name_nodes(model: ir.Model, subprogram: Subprogram) -> dict[str, Node]:
    """Make node names unique, take out what names places of this machine, and tell which node each was made from."""
    origins: dict[str, Node] = {}
    copies = {node.name: node for node in subprogram.program.graph.nodes}
    for position, node in enumerate(model.graph):
        node.name = f"n{position}_{node.op_type}"
        copy = copies.get(node.metadata_props.get(torch_onnx.SOURCE_NODE, ""))
        # Conversions that type promotion put in belong to the node that they are for.
        while copy is not None and copy.name not in subprogram.origins:
            copy = next(iter(copy.users), None)
        if copy is not None:
            origins[node.name] = subprogram.origins[copy.name]
        node.metadata_props.clear()
    for value in (*model.graph.inputs, *_values(model.graph)):
        value.metadata_props.clear()
    model.graph.metadata_props.clear()
    model.metadata_props.clear()
    return origins
