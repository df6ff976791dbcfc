"""Where a program calls engines, and the engine object behind each call."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

from trt_export.engines.probe import FOREIGN_CLASS, OWN_CLASS, class_name, unwrap
from trt_export.errors import EngineObjectError, LoweringError

# Both are `execute_engine(Tensor[] inputs, Engine engine) -> Tensor[]`, whatever they call their arguments.
ENGINE_OPS = {
    "trt_runtime::execute_engine": OWN_CLASS,
    "tensorrt::execute_engine": FOREIGN_CLASS,
}


@dataclass(frozen=True)
class EngineCall:
    """A call `execute_engine(Tensor[] inputs, Engine engine) -> Tensor[]`.

    `source` is the node that the engine comes from: a placeholder or a get_attr node. `engine` is the real
    object, taken out of any fake wrapper. `is_effectful` says that the node is
    `with_effects(token, execute_engine, inputs, engine) -> (token, Tensor[])`: torch's decompositions make that of
    an op whose engine argument is of plain class type.
    """

    node: Node
    inputs: tuple[Node, ...]
    source: Node
    engine: torch.ScriptObject
    is_effectful: bool = False

    @property
    def identity(self) -> int:
        """Equal for calls of the same engine object, through whatever wrapper or attribute."""
        return hash(self.engine)  # A TorchBind object hashes by the native object's address.

    @property
    def outputs(self) -> Any:
        """What the graph says of the outputs, which should be a list of tensors; None if it says nothing."""
        value = self.node.meta.get("val")
        if self.is_effectful:
            return value[1] if isinstance(value, tuple) and len(value) == 2 else None
        return value


def find_calls(program: ExportedProgram) -> tuple[EngineCall, ...]:
    """All engine calls of a program, in the order of its graph.

    Raises:
        EngineObjectError: an engine argument that is no TorchBind engine, or that the caller must pass.
        LoweringError: a call in a place from which it cannot be lowered (a branch or loop body).
    """
    for name, module in program.graph_module.named_modules():
        if name and isinstance(module, GraphModule):
            for node in _engine_nodes(module):
                raise LoweringError(
                    f"engine call {node.name!r} is inside {name!r}, a branch or loop body; ExecuTorch lowers"
                    " engines in a method's own graph only: keep control flow out of the compiled part"
                )
    calls = tuple(_call(program, node) for node in _engine_nodes(program.graph_module))
    _check_other_uses(calls)
    return calls


def _engine_nodes(module: GraphModule) -> Iterator[Node]:
    for node in module.graph.nodes:
        if node.op == "call_function" and _called_op(node) is not None:
            yield node


def _called_op(node: Node) -> Any:
    """The op that a node calls an engine with; None for any other node.

    Raises:
        LoweringError: it is in a wrapper that is not known.
    """
    if _is_engine_op(node.target):
        return node.target
    wrapped = [argument for argument in node.args if _is_engine_op(argument)]
    if not wrapped:
        return None
    if _is_with_effects(node.target) and node.args[1] is wrapped[0]:
        return wrapped[0]
    raise LoweringError(
        f"node {node.name!r} wraps {wrapped[0]} in {node.target}, a form that this trt-export does not know"
    )


def _is_engine_op(target: object) -> bool:
    # By its schema, which ops of ExecuTorch's edge dialect have too.
    return getattr(getattr(target, "_schema", None), "name", None) in ENGINE_OPS


def _is_with_effects(target: object) -> bool:
    return isinstance(target, HigherOrderOperator) and str(target) == "with_effects"


def _call(program: ExportedProgram, node: Node) -> EngineCall:
    op = _called_op(node)
    is_effectful = op is not node.target
    names = [argument.name for argument in op._schema.arguments]
    given = node.args[2:] if is_effectful else node.args
    arguments = dict(zip(names, given, strict=False)) | dict(node.kwargs)
    inputs, source = (arguments.get(name) for name in names)
    if not isinstance(source, Node):
        raise EngineObjectError(
            f"engine call {node.name!r} has no engine, its argument is {source!r}"
        )
    if not isinstance(inputs, list | tuple) or not all(isinstance(item, Node) for item in inputs):
        raise LoweringError(
            f"the inputs of engine call {node.name!r} are no list of tensors: {inputs!r:.200}"
        )
    engine = unwrap(_resolve(program, node, source))
    if not isinstance(engine, torch.ScriptObject):
        raise EngineObjectError(
            f"the engine of call {node.name!r} ({source.name!r}) is a {type(engine).__name__}, not a TorchBind"
            " engine that can be serialized; make it with trt_runtime.Engine.from_plan(...)"
        )
    expected = ENGINE_OPS[op._schema.name]
    if class_name(engine) != expected:
        raise EngineObjectError(
            f"the engine of call {node.name!r} ({source.name!r}) is of class {class_name(engine)},"
            f" expected {expected}"
        )
    tensors = tuple(item for item in inputs if isinstance(item, Node))
    return EngineCall(node, tensors, source, engine, is_effectful)


def _check_other_uses(calls: Sequence[EngineCall]) -> None:
    """Check that nothing but calls uses an engine: what else there is would go missing without a word."""
    known = {call.node for call in calls}
    for call in calls:
        for user in call.source.users:
            if user not in known:
                raise LoweringError(
                    f"node {user.name!r} ({user.op} {user.target}) uses the engine {call.source.name!r}"
                    " otherwise than by calling it, a form that this trt-export does not know"
                )


def _resolve(program: ExportedProgram, node: Node, source: Node) -> Any:
    if source.op == "get_attr":
        try:
            return attrgetter(str(source.target))(program.graph_module)
        except AttributeError as error:
            raise EngineObjectError(
                f"the engine of call {node.name!r} should be the attribute {source.target!r}, which is not there"
            ) from error
    specs = [spec for spec in program.graph_signature.input_specs if spec.arg.name == source.name]
    if specs and specs[0].kind is InputKind.CUSTOM_OBJ:
        if specs[0].target not in program.constants:
            raise EngineObjectError(
                f"the engine {specs[0].target!r} of call {node.name!r} is not among the program's constants"
                f" {sorted(program.constants)}"
            )
        return program.constants[specs[0].target]
    if specs:
        raise EngineObjectError(
            f"the engine of call {node.name!r} is the program's own input {source.name!r}; a .pte holds its"
            " engines: make it an attribute of the module before export"
        )
    raise EngineObjectError(
        f"the engine of call {node.name!r} comes from {source.op} node {source.name!r}"
    )
