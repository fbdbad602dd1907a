"""Parents that a node does not trust alone: where queries and flows begin."""

from __future__ import annotations

from pytest import approx

from plugins.dcp.control import SequenceStart
from plugins.dcp.event_range import Description
from tests.plugins.dcp.connection_pipe import DESCRIPTION
from tests.plugins.dcp.receiving_node import Node

A = ("ops.>", "a", ())


def make_node() -> Node:
    node = Node(confirms=True)
    node.core.set_queries([A], 0.0)
    return node


def test_interest_counts_with_the_second_parent_from_the_lowest_of_both_places() -> None:
    node = make_node()
    first, second = node.add_parent("p1", 1), node.add_parent("p2", 2)
    node.when_covered("a")
    node.put_in_force(first, 1, 1_000)
    assert node.covered == [] and node.core.covered_epoch == 0
    node.put_in_force(second, 1, 40)
    assert node.covered == ["a"]
    assert (node.receiver().required.newest, node.receiver().required.newest_an) == (1, 40)


def test_interest_that_one_parent_alone_has_counts_after_2_s() -> None:
    node = make_node()
    node.when_covered("a")
    node.put_in_force(node.add_parent("p", 1), 1, 10)
    assert node.core.next_timeout() == approx(2.0)
    node.core.handle_timeout(2.0)
    assert node.covered == ["a"]


def test_the_end_of_an_earlier_epoch_is_left_to_the_log() -> None:
    node = make_node()
    description = Description(DESCRIPTION.flow, 7, "n1", (6, 100))
    for number in (1, 2):
        node.put_in_force(node.add_parent(f"p{number}", number), 1, 10)
    for connection in node.connections:
        node.core.open_sequence(connection, start_of(description), 0.0)
    assert node.state(description).description.begins_after == (7, 0)


def start_of(description: Description) -> SequenceStart:
    return SequenceStart(2, description, 0)
