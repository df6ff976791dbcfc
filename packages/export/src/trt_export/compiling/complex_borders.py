"""Complex numbers stay inside of engines: their inputs and outputs are real tensors."""

from collections.abc import Collection, Sequence

from torch.fx import Node

from trt_export.compiling.support import is_complex, owner, values_of

_TAKES = (
    "it takes complex numbers that are made outside of the engine, and engines take real tensors only: "
    "pass them in as torch.view_as_real(z)"
)
_RETURNS = (
    "it makes complex numbers that are used outside of the engine, and engines return real tensors only: "
    "return torch.view_as_real(z), z.abs() or the like"
)


def across_border(nodes: Sequence[Node], weights: Collection[Node]) -> dict[Node, str]:
    """Return the nodes of a partition that cannot be in it, since complex numbers would cross its border.

    Each node that is taken out moves the border, so what is behind it is looked at again.
    """
    inside = set(nodes)
    found: dict[Node, str] = {}
    while True:
        reasons: dict[Node, str] = {}
        for node in nodes:
            if node not in inside:
                continue
            if any(
                _has_complex(used) and used not in inside and used not in weights
                for used in node.all_input_nodes
            ):
                reasons.setdefault(owner(node), _TAKES)
            if _has_complex(node) and any(user not in inside for user in node.users):
                reasons.setdefault(owner(node), _RETURNS)
        if not reasons:
            return found
        found |= {node: reason for node, reason in reasons.items() if node not in found}
        taken_out = set(reasons)
        inside -= {node for node in inside if node in taken_out or owner(node) in taken_out}


def _has_complex(node: Node) -> bool:
    return any(map(is_complex, values_of(node)))
