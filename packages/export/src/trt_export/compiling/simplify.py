"""Simplifies the ONNX model of a partition, in time that grows with its nodes and no faster.

onnxscript's own optimizer matches each of its rules at each node, and one of them looks through the whole graph every
time: 100,000 attempts for a language model of eight layers. Here a rule is tried only at operators that it begins with.
"""

import contextlib
from collections.abc import Mapping, Sequence

import onnx_ir as ir
import onnx_ir.passes.common as common
from onnxscript import optimizer
from onnxscript.rewriter import RewriteRule
from onnxscript.rewriter.rules import common as rules

from trt_export.compiling.spill import SpillFile, spill

# Of operators, in the order in which rules are tried. Builders and ONNX Runtime do much of it themselves; what is here
# makes shapes constant that TensorRT's parser wants constant, and keeps what a plan has small.
_RULES: Mapping[str, Sequence[RewriteRule]] = {
    "BatchNormalization": (
        rules.fuse_batchnorm_into_conv_rule,
        rules.fuse_batchnorm_into_conv_transpose_rule,
        rules.fuse_batchnorm_into_gemm_rule,
    ),
    "Cast": (
        rules.cast_constant_of_shape_rule,
        rules.cast_constant_of_shape_without_value_rule,
        rules.cast_cast_rule,
        rules.no_op_cast_rule,
    ),
    "Clip": (rules.successive_clip_relu_rule, rules.successive_clip_rule),
    "Conv": (
        rules.normalize_pad_format_conv_rule,
        rules.fuse_pad_into_conv_rule,
        rules.remove_optional_bias_from_conv_rule,
    ),
    "ConvInteger": (
        rules.normalize_pad_format_conv_integer_rule,
        rules.fuse_pad_into_conv_integer_rule,
    ),
    "ConvTranspose": (rules.remove_optional_bias_from_conv_transpose_rule,),
    "Dropout": (rules.dropout_zero_rule, rules.dropout_inference_rule),
    "Expand": (rules.no_op_expand_rule,),
    "Flatten": (rules.flatten_to_reshape_rule,),
    "Gemm": (rules.remove_optional_bias_from_gemm_rule,),
    "Max": (rules.max_max_rule, rules.min_max_rule),
    "Min": (rules.min_min_rule, rules.max_min_rule),
    "QLinearConv": (rules.remove_optional_bias_from_qlinear_conv_rule,),
    "Relu": (rules.successive_relu_clip_rule, rules.successive_relu_rule),
    "Reshape": (
        rules.two_reshapes_matmul_reshape_rule,
        rules.one_reshape_matmul_reshape_rule,
        rules.materialize_reshape_shape_rule,
        rules.reshape_reshape_rule,
        rules.squeeze_reshape_1d_rule,
    ),
    "ScatterND": (
        rules.no_op_dynamic_scatter_nd_rule,
        rules.no_op_static_scatter_nd_rule,
    ),
    "Slice": (rules.collapse_slice_rule, rules.collapse_slice2_rule),
    "Transpose": (rules.no_op_transpose_rule, rules.transpose_transpose_rule),
    "Unsqueeze": (rules.unsqueeze_unsqueeze_rule,),
}

# The number that each operand may be, without changing the other: exactly, and also where that is -0.0, which `+ 0` is
# not for floats.
_NEUTRAL: Mapping[str, tuple[float | None, float | None]] = {
    "Add": (0.0, 0.0),
    "Mul": (1.0, 1.0),
    "Div": (None, 1.0),
    "Sub": (None, 0.0),
}

_ROUNDS = 3  # a rule may make what another one begins with


def simplify(model: ir.Model) -> None:
    """Fold constants, rewrite, and remove what is unused or there twice, in place.

    Every node of the result has the metadata of a node that it was made from.
    """
    if model.functions:
        common.InlinePass()(model)
    optimizer.fold_constants(model, onnx_shape_inference=True)
    with contextlib.closing(SpillFile()) as file:
        _simplify(model, file)


def _simplify(model: ir.Model, file: SpillFile) -> None:
    for _ in range(_ROUNDS):
        if not _rewrite(model, file):
            break
        common.RemoveUnusedNodesPass()(model)
        common.NameFixPass()(model)  # the rules' names may be there already
    optimizer.fold_constants(model, onnx_shape_inference=False)
    ir.passes.Sequential(
        common.RemoveUnusedNodesPass(),
        common.RemoveUnusedOpsetsPass(),
        common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0),
        common.LiftSubgraphInitializersToMainGraphPass(),
        common.DeduplicateInitializersPass(),
        common.CommonSubexpressionEliminationPass(),
        common.OutputFixPass(),
        common.NameFixPass(),
    )(model)
    for value in model.graph.initializers.values():
        spill(value, file)


def _rewrite(model: ir.Model, file: SpillFile) -> int:
    """Try the rules once at each node, and return how many applied."""
    applied = 0
    for node in ir.traversal.RecursiveGraphIterator(model.graph):
        if node.domain not in ("", "ai.onnx"):
            continue
        applied += _skip_neutral(node) or any(
            _apply(rule, model, node, file) for rule in _RULES.get(node.op_type, ())
        )
    return applied


def _apply(rule: RewriteRule, model: ir.Model, node: ir.Node, file: SpillFile) -> bool:
    graph = node.graph
    if graph is None:  # an earlier rule took it away
        return False
    found = rule.try_rewrite(model, graph, node)
    if found is None:
        return False
    for value in found.new_initializers:
        while value.name in graph.initializers:
            value.name = f"{value.name}_"
        graph.register_initializer(value)
        spill(value, file)
    optimizer.basic_constant_propagation(found.new_nodes)
    replaced = found.match.nodes if rule.remove_nodes else []
    _replace(node, replaced, found.new_nodes, found.match.outputs, found.new_outputs)
    return True


def _skip_neutral(node: ir.Node) -> bool:
    """Replace `x * 1`, `x / 1` and `x - 0` by `x`; onnxscript's rules take also what is nearly 1 or 0."""
    for position, neutral in enumerate(_NEUTRAL.get(node.op_type, ())):
        operand, number = node.inputs[1 - position], node.inputs[position]
        if neutral is None or operand is None or number is None:
            continue
        tensor = ir.convenience.get_const_tensor(number)
        if tensor is None or tensor.size != 1 or tensor.numpy().item() != neutral:
            continue
        if node.op_type == "Add" and not tensor.dtype.is_integer():
            continue
        if operand.shape is None or tensor.shape.rank() > operand.shape.rank():
            continue  # it may have more dimensions than the operand
        same = ir.node("Identity", [operand])
        _replace(node, [node], [same], node.outputs, same.outputs)
        return True
    return False


def _replace(
    node: ir.Node,
    replaced: Sequence[ir.Node],
    made: Sequence[ir.Node],
    outputs: Sequence[ir.Value],
    new_outputs: Sequence[ir.Value],
) -> None:
    graph = node.graph
    assert graph is not None
    for each in made:
        for key, value in node.metadata_props.items():
            each.metadata_props.setdefault(key, value)
    ir.convenience.replace_nodes_and_values(graph, node, replaced, made, outputs, new_outputs)
