"""Groups the nodes that a builder may take into partitions that can each run as one call."""

from collections import defaultdict
from collections.abc import Collection

import torch
from torch.fx import Node


def partition(
    nodes: Collection[Node], taken: Collection[Node], free_sizes: Collection[Node]
) -> list[list[Node]]:
    """Group `taken` (in graph order) so that no partition needs, even in a roundabout way, its own results.

    A node's level counts how often the longest way to it leaves taken nodes for one that stays outside: every way out
    of a partition and back ends on a higher level, so all nodes of one level may run together. Ways through
    `free_sizes` do not count: these are sizes that a partition computes again for itself from its inputs' shapes.

    Args:
        nodes: all nodes of the graph, in graph order.
        taken: the nodes to group.
        free_sizes: nodes whose value is a size known from the shapes of the program's inputs.

    Returns:
        Partitions in an order in which they can run, each in graph order and with tensors on one device.
    """
    taken = set(taken)
    level: dict[Node, int] = {}
    partitions: defaultdict[tuple[int, str], list[Node]] = defaultdict(list)
    for node in nodes:
        here = 0
        for source in node.all_input_nodes:
            if source in free_sizes:
                continue
            leaves = source in taken and node not in taken
            here = max(here, level[source] + leaves)
        level[node] = here
        if node in taken:
            partitions[here, device_of(node)].append(node)
    return [partitions[key] for key in sorted(partitions)]


def device_of(node: Node) -> str:
    """Return the device of the node's tensors, `"cpu"` or `"cuda:0"`."""
    value = node.meta["val"]
    first = next(
        v
        for v in (value if isinstance(value, (tuple, list)) else (value,))
        if isinstance(v, torch.Tensor)
    )
    return str(first.device)
