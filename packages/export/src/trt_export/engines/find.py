"""Where a program calls engines, and the engine object behind each call."""

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import GraphModule, Node

from trt_export.errors import EngineObjectError, LoweringError

ENGINE_OP = "trt_runtime::execute_engine"


@dataclass(frozen=True)
class EngineCall:
    """A call `execute_engine(Tensor[] inputs, Engine? engine) -> Tensor[]`.

    `source` is the node that the engine comes from: a placeholder or a get_attr node. `engine` is the real
    object, taken out of any fake wrapper.
    """

    node: Node
    inputs: tuple[Node, ...]
    source: Node
    engine: torch.ScriptObject

    @property
    def identity(self) -> int:
        """Equal for calls of the same engine object, through whatever wrapper or attribute."""
        return hash(self.engine)  # A TorchBind object hashes by the native object's address.


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
    return tuple(_call(program, node) for node in _engine_nodes(program.graph_module))


def _engine_nodes(module: GraphModule) -> Iterator[Node]:
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if _schema_name(node.target) == ENGINE_OP:
            yield node
        elif any(_schema_name(argument) == ENGINE_OP for argument in node.args):
            # torch wraps an op in with_effects if its engine argument is of plain class type.
            raise LoweringError(
                f"node {node.name!r} wraps {ENGINE_OP} in {node.target}: the installed trt-runtime declares"
                " the op otherwise than this trt-export expects; run `trt-export doctor`"
            )


def _schema_name(target: object) -> str:
    schema = getattr(target, "_schema", None)
    return getattr(schema, "name", "")


def _call(program: ExportedProgram, node: Node) -> EngineCall:
    arguments = dict(zip(("inputs", "engine"), node.args, strict=False)) | dict(node.kwargs)
    inputs, source = arguments.get("inputs"), arguments.get("engine")
    if not isinstance(source, Node):
        raise EngineObjectError(
            f"engine call {node.name!r} has no engine, its argument is {source!r}"
        )
    if not isinstance(inputs, list | tuple) or not all(isinstance(item, Node) for item in inputs):
        raise LoweringError(
            f"the inputs of engine call {node.name!r} are no list of tensors: {inputs!r:.200}"
        )
    engine = _unwrapped(_resolve(program, node, source))
    if not (isinstance(engine, torch.ScriptObject) and _can_be_read(engine)):
        raise EngineObjectError(
            f"the engine of call {node.name!r} ({source.name!r}) is a {type(engine).__name__}, not a TorchBind"
            " engine that can be serialized; make it with trt_runtime.Engine.from_plan(...)"
        )
    return EngineCall(
        node, tuple(item for item in inputs if isinstance(item, Node)), source, engine
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


def _can_be_read(engine: torch.ScriptObject) -> bool:
    return bool(engine._has_method("__getstate__"))  # type: ignore[attr-defined]


def _unwrapped(value: Any) -> Any:
    """The object in a FakeScriptObject, which only answers for the fake class's own methods."""
    return getattr(value, "real_obj", value)
