"""Partitions can run one after the other, whatever the graph."""

from collections.abc import Sequence

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.fx import Graph, Node

from trt_export.compiling.partition import partition


def graph_of(edges: Sequence[Sequence[int]]) -> list[Node]:
    """Make nodes, each of which uses the earlier ones that are listed for it."""
    graph = Graph()
    nodes: list[Node] = []
    for sources in edges:
        node = graph.call_function(torch.add, tuple(nodes[source] for source in sources))
        node.meta["val"] = torch.empty(())
        nodes.append(node)
    return nodes


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[list[int]], list[bool]]:
    count = draw(st.integers(1, 12))
    edges = [
        draw(st.lists(st.integers(0, n - 1), max_size=3, unique=True)) if n else []
        for n in range(count)
    ]
    return edges, draw(st.lists(st.booleans(), min_size=count, max_size=count))


@settings(max_examples=300)
@given(graphs())
def test_partitions_run_in_order_and_hold_every_taken_node_once(
    graph: tuple[list[list[int]], list[bool]],
) -> None:
    edges, is_taken = graph
    nodes = graph_of(edges)
    taken = [node for node, chosen in zip(nodes, is_taken, strict=True) if chosen]
    partitions = partition(nodes, taken, [])
    assert sorted((n for group in partitions for n in group), key=nodes.index) == taken
    # Run: a group is ready when all it uses is there; nodes outside run as soon as they can.
    there: set[Node] = set()

    def run_outside() -> None:
        for node in nodes:
            if node not in taken and set(node.all_input_nodes) <= there:
                there.add(node)

    for group in partitions:
        run_outside()
        assert all(
            source in there or source in group for node in group for source in node.all_input_nodes
        )
        there |= set(group)
    run_outside()
    assert there == set(nodes)


def test_what_no_outside_node_separates_is_one_partition() -> None:
    nodes = graph_of([[], [], [0], [1], [2, 3]])
    assert partition(nodes, nodes, []) == [nodes]


def test_a_node_outside_separates_only_what_depends_on_it() -> None:
    before, outside, after, beside = graph_of([[], [0], [1], [0]])
    nodes = [before, outside, after, beside]
    assert partition(nodes, [before, after, beside], []) == [[before, beside], [after]]


def test_sizes_that_are_computed_again_inside_separate_nothing() -> None:
    before, size, after = nodes = graph_of([[], [0], [0, 1]])
    assert partition(nodes, [before, after], [size]) == [[before, after]]


def test_devices_are_not_mixed() -> None:
    first, second = nodes = graph_of([[], []])
    second.meta["val"] = torch.empty((), device="meta")
    assert sorted(partition(nodes, nodes, []), key=str) == [[first], [second]]
