"""Names the nodes that ExecuTorch cannot take, once it has refused a program, and what helps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

REAL_PARTS = (
    "compute with the real and the imaginary part, which are real tensors"
    " (torch.view_as_real(z), z.real, z.imag)"
)


def blame(programs: Mapping[str, ExportedProgram], error: Exception) -> str:
    """Return the nodes that the error is likely about, with each way out said once."""
    text = str(error)
    found: dict[str, list[str]] = {}
    for method, program in programs.items():
        for node, help_ in _suspects(program.graph.nodes, text):
            name = f"node {node.name!r} of method {method!r} ({_name(node)})"
            found.setdefault(help_, []).append(name)
    if not found:
        return (
            "keep operators that ExecuTorch does not have out of the model, and see the cause (`__cause__`) for"
            " ExecuTorch's own words"
        )
    parts = [f"{_listed(nodes)}: {help_}" for help_, nodes in found.items()]
    more = f" (and {len(parts) - 3} more)" if len(parts) > 3 else ""
    return "; ".join(parts[:3]) + more


def _listed(nodes: Sequence[str]) -> str:
    more = f" and {len(nodes) - 3} more" if len(nodes) > 3 else ""
    return ", ".join(nodes[:3]) + more


def _suspects(nodes: Iterable[Node], text: str) -> Iterator[tuple[Node, str]]:
    named: list[tuple[Node, str]] = []
    others: list[tuple[Node, str]] = []
    for node in nodes:
        if node.op != "call_function":
            continue
        target = _operator(node)
        if target is not None:
            if _is_mentioned(target, text):
                named.append((node, _advice_on(node, target, text)))
            elif any(value.is_complex() for value in _tensors(node)):
                others.append((node, _advice_on_complex(node)))
        elif isinstance(node.meta.get("val"), torch.SymFloat) and not text:
            others.append(
                (
                    node,
                    "it makes a float of a dynamic size, for which ExecuTorch has no operator: make the dimension"
                    " static, or compute the number with tensors, such as"
                    " torch.ones_like(x).sum(-1, keepdim=True).sqrt()",
                )
            )
    yield from named or others


def _is_mentioned(target: OpOverload, text: str) -> bool:
    packet = target._schema.name
    return any(name in text for name in (packet, f"{packet.replace('::', '.')}.", str(target)))


def _advice_on(node: Node, target: OpOverload, text: str) -> str:
    if "out variant" in text:
        return (
            "the operator has no out variant, which a .pte needs: register one (torch.library) and its kernel, or write"
            " this part of the model with PyTorch's own operators"
        )
    if any(value.is_complex() for value in _tensors(node)):
        return _advice_on_complex(node)
    return (
        "ExecuTorch has no kernel for it: write this part of the model with other operators, or pass"
        f" compile_config=EdgeCompileConfig(_core_aten_ops_exception_list=[torch.ops.{target}]) if the program that"
        " will run the file has one"
    )


def _advice_on_complex(node: Node) -> str:
    inputs = [
        item.name
        for item in node.all_input_nodes
        if item.op == "placeholder" and any(value.is_complex() for value in _values(item))
    ]
    if inputs:
        return (
            f"input {inputs[0]!r} is complex, and ExecuTorch does not have the operator for complex numbers: pass the"
            " real and the imaginary part as tensors of their own, or take them first in the model"
            f" (torch.view_as_real({inputs[0]}))"
        )
    return f"ExecuTorch does not have the operator for complex numbers: {REAL_PARTS}"


def _tensors(node: Node) -> Iterator[torch.Tensor]:
    for item in (node, *node.all_input_nodes):
        yield from _values(item)


def _values(node: Node) -> Iterator[torch.Tensor]:
    value: Any = node.meta.get("val")
    for one in value if isinstance(value, list | tuple) else (value,):
        if isinstance(one, torch.Tensor):
            yield one


def _operator(node: Node) -> OpOverload | None:
    """Return the operator of a call, before or after ExecuTorch wrapped it for its Edge dialect."""
    target: Any = node.target
    if not isinstance(target, OpOverload):
        target = getattr(target, "_op", None)  # EdgeOpOverload
    return target if isinstance(target, OpOverload) else None


def _name(node: Node) -> str:
    operator = _operator(node)
    return str(operator) if operator else str(getattr(node.target, "__name__", node.target))
