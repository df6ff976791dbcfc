"""Protects numbers near 0 and 1 from onnxscript's optimizer, which takes them for 0 and 1.

Its rules for `x + 0` and `x * 1` compare constants with a tolerance of 1e-8 and 1e-5: `x / (norm + 1e-12)` loses the
number that keeps it from dividing by zero, and `x * 1.000001` becomes `x`. They look at constants of rank 0 alone.
"""

import math

import onnx_ir as ir

_IDENTITIES = {"Add": 0.0, "Sub": 0.0, "Mul": 1.0, "Div": 1.0}


def protect_numbers(model: ir.Model) -> None:
    """Give such constants rank 1, in place; results keep their shapes."""
    for node in tuple(model.graph):
        identity = _IDENTITIES.get(node.op_type)
        if identity is None or node.domain:
            continue
        for position, value in enumerate(node.inputs):
            if value is not None and _is_nearly(value, identity):
                _protect(model.graph, node, position)


def _is_nearly(value: ir.Value, identity: float) -> bool:
    made = _number(value)
    if made is None:
        return False
    number = float(made.numpy().item())
    return number != identity and math.isclose(number, identity, rel_tol=2e-5, abs_tol=2e-8)


def _number(value: ir.Value) -> ir.TensorProtocol | None:
    """Return a float constant of rank 0, also one that is still to be converted to the dtype of another value."""
    source, node, dtype = value, value.producer(), value.dtype
    if node is not None and node.op_type in ("Cast", "CastLike") and node.inputs[0] is not None:
        source = node.inputs[0]
        if dtype is None and node.op_type == "CastLike" and node.inputs[1] is not None:
            dtype = node.inputs[1].dtype
        elif node.op_type == "Cast":
            dtype = ir.DataType(node.attributes["to"].as_int())
    tensor = ir.convenience.get_const_tensor(source)
    if tensor is None or tensor.shape.rank() != 0:
        return None
    dtype = dtype or tensor.dtype
    if not dtype.is_floating_point():
        return None
    return ir.tensor([tensor.numpy().item()], dtype=dtype)


def _protect(graph: ir.Graph, node: ir.Node, position: int) -> None:
    value, result = node.inputs[position], node.outputs[0]
    assert value is not None
    made = _number(value)
    assert made is not None
    source = ir.node("Constant", [], {"value": made})
    graph.insert_before(node, source)
    source.outputs[0].shape, source.outputs[0].dtype = ir.Shape([1]), made.dtype
    node.replace_input_with(position, source.outputs[0])
    if result.shape is not None and result.shape.rank() == 0:
        shape = ir.node("Constant", [], {"value": ir.tensor([], dtype=ir.DataType.INT64)})
        flat = ir.node("Reshape", [result, shape.outputs[0]])
        ir.convenience.replace_all_uses_with(result, flat.outputs[0], replace_graph_outputs=True)
        flat.replace_input_with(0, result)
        flat.outputs[0].shape, flat.outputs[0].type = result.shape, result.type
        result.shape = ir.Shape([1])
        flat.metadata_props.update(node.metadata_props)
        graph.insert_after(node, [shape, flat])
