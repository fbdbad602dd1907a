"""The children of a node: their interest, and the events that each gets."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import pytest

from broker.errors import BadQuery, Overloaded, ProtocolError
from broker.streams.link_key import Unmatched
from plugins.dcp.children import Child, QueryRefusedError
from plugins.dcp.control import InForce, Query, SequenceStart
from plugins.dcp.event_range import EventRange
from plugins.dcp.leaf_peer import LeafPeer
from plugins.dcp.omission import WITHHELD
from plugins.dcp.sender import Unavailable
from tests.plugins.dcp.connection_pipe import DESCRIPTION, KEY, make_event, make_range
from tests.plugins.dcp.feeding_node import Node
from tests.plugins.dcp.recording_connection import RecordingConnection

ROOM = 1_000


def make_query(text: str) -> Query:
    return "ops.>", text, ()


A, B, C = map(make_query, "abc")


def epochs_of(connection: RecordingConnection) -> list[int]:
    """Return the epochs that a child has got as in force."""
    messages = connection.take_messages()
    return [each.epoch for each in messages if isinstance(each, InForce)]


def items_for(connection: RecordingConnection) -> list[EventRange | Unavailable]:
    """Return all that waits for a child."""
    sequence = connection.buffer.find(KEY)
    found: list[EventRange | Unavailable] = []
    while sequence is not None and sequence.sender.is_waiting:
        item = sequence.sender.next_to_send(ROOM, 0.0)
        found.append(item if isinstance(item, Unavailable) else item.range)
    return found


def sent_to(connection: RecordingConnection) -> Sequence[EventRange]:
    """Return the ranges that wait for a child; none is unavailable."""
    items = items_for(connection)
    found = [each for each in items if not isinstance(each, Unavailable)]
    assert found == items
    return found


def ans_of(range_: EventRange) -> tuple[int, int, list[int]]:
    return range_.previous, range_.upto, [event.mark[1] for event in range_.events]


# ------------------------------------------------------------------ interest


def test_interest_is_set_once_and_replaced_by_its_changes() -> None:
    node = Node()
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A, B])
    assert node.calls == [("1", "a"), ("2", "b")] and node.core.queries == {A, B}
    node.select("a", "b")
    node.core.set_interest(connection, 2, [B, C])
    # The old interest stays until the new one is in force.
    assert node.texts() == ["a", "b", "c"] and node.core.queries == {B, C}
    node.select("c")
    assert node.calls[2:] == [("3", "c"), ("1", None)] and node.texts() == ["b", "c"]
    assert node.changes == 2 and epochs_of(connection) == [1, 2]


def test_interest_is_in_force_when_all_of_it_is_selected_and_covered() -> None:
    node = Node()
    node.is_covered = False
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A, B])
    node.select("b")
    node.cover()
    assert epochs_of(connection) == [] and not node.child(connection).is_fed
    node.is_covered = False
    node.select("a")
    assert epochs_of(connection) == [] and not node.child(connection).is_fed
    node.cover()
    assert epochs_of(connection) == [1] and node.child(connection).is_fed
    assert connection.query_epoch == 1


def test_a_query_is_in_force_behind_the_marks_of_the_feeder() -> None:
    node = Node()
    state = node.add_sequence(end=20)
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A, B])
    node.select("a", an=30)
    node.select("b", an=25)
    assert connection.take_messages() == [InForce(1, (SequenceStart(1, DESCRIPTION, 30),))]
    # What is selected already counts from the present place on.
    state.end = 70
    node.core.set_interest(connection, 2, [B])
    assert connection.take_messages() == [InForce(2, (SequenceStart(1, DESCRIPTION, 70),))]


@pytest.mark.parametrize("error", [BadQuery("no XPath"), Overloaded("too many queries")])
def test_a_rejected_query_leaves_the_old_interest(error: BadQuery | Overloaded) -> None:
    node = Node()
    connection = node.feed_child("c1", 1, A)
    node.bad["bad"] = error
    with pytest.raises(QueryRefusedError) as refused:
        node.core.set_interest(connection, 2, [B, make_query("bad"), C])
    assert (refused.value.query, refused.value.error) == (make_query("bad"), error)
    assert node.texts() == ["a"] and node.core.queries == {A}
    assert connection.query_epoch == 1 and node.changes == 1
    # The child may go on.
    node.core.set_interest(connection, 3, [A, B])
    node.select("b")
    assert node.texts() == ["a", "b"] and epochs_of(connection) == [1, 3]


def test_a_pattern_that_is_none_leaves_the_old_interest() -> None:
    node = Node()
    connection = node.feed_child("c1", 1, A)
    with pytest.raises(ProtocolError):
        node.core.set_interest(connection, 2, [B, ("a..b", "", ())])
    assert node.texts() == ["a"] and node.core.queries == {A}


def test_interest_of_an_earlier_epoch_is_rejected() -> None:
    node = Node()
    connection = node.add_child()
    node.core.set_interest(connection, 5, [A])
    for epoch in (4, 5):
        with pytest.raises(ProtocolError):
            node.core.set_interest(connection, epoch, [B])
    assert node.core.queries == {A}


@pytest.mark.parametrize("order", [["a", "b"], ["b", "a"], ["b"]])
def test_the_later_of_two_interests_in_succession_counts(order: list[str]) -> None:
    node = Node()
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A])
    node.core.set_interest(connection, 2, [B])
    node.select(*order)
    assert epochs_of(connection) == [2] and node.texts() == ["b"]
    assert connection.query_epoch == 2 and node.core.queries == {B}


def test_a_later_interest_that_is_covered_first_counts() -> None:
    node = Node()
    node.is_covered = False
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A])
    node.select("a")
    node.core.set_interest(connection, 2, [A, B])
    node.cover()
    # The earlier one is in the later one, which is not selected yet.
    assert epochs_of(connection) == [] and node.texts() == ["a", "b"]
    node.select("b")
    assert epochs_of(connection) == [2]


def test_a_child_without_queries_is_in_force_at_once() -> None:
    node = Node()
    node.add_sequence(end=20)
    connection = node.add_child()
    node.core.set_interest(connection, 1, [])
    assert connection.take_messages() == [InForce(1, (SequenceStart(1, DESCRIPTION, 20),))]


# ------------------------------------------------------------------ end of a child


def test_the_interest_of_a_child_that_has_gone_is_removed() -> None:
    node = Node()
    first, second = node.feed_child("c1", 1, A, B), node.feed_child("c2", 2, B, C)
    node.core.remove(first)
    assert node.texts() == ["b", "c"] and node.core.queries == {B, C}
    assert len(node.core) == 1 and first not in node.core and second in node.core
    changes = node.changes
    node.core.remove(first)
    assert node.changes == changes


def test_interest_of_a_child_that_has_gone_is_never_in_force() -> None:
    node = Node()
    node.is_covered = False
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A])
    node.select("a")
    node.core.remove(connection)
    node.cover()
    assert epochs_of(connection) == []


# ------------------------------------------------------------------ events


def links_of(*children: Sequence[Child]) -> list[frozenset[Hashable]]:
    """Return the links of the children of each event."""
    return [frozenset(each.link for each in those) for those in children]


def test_each_child_gets_the_events_of_its_links() -> None:
    node = Node()
    state = node.add_sequence(end=0)
    connections = [node.feed_child(f"c{n}", n, make_query(f"q{n}")) for n in range(3)]
    first, second, third = map(node.child, connections)
    links = links_of([first, second], [second], [first])
    node.core.forward(state, make_range(0, 10, 2, 5, 9), links)
    assert [[ans_of(each) for each in sent_to(c)] for c in connections] == [
        *([(0, 10, [2, 9])], [(0, 10, [2, 5])], []),
    ]
    # A range without events waits for the next one.
    node.core.forward(state, make_range(10, 15, 12), links_of([third]))
    assert [ans_of(each) for each in sent_to(connections[2])] == [(0, 15, [12])]
    assert sent_to(connections[0]) == []


def test_children_with_equal_queries_share_one_range() -> None:
    node = Node()
    state = node.add_sequence(end=0)
    connections = [node.feed_child(f"c{n}", n, make_query(f"q{n}")) for n in range(4)]
    children = list(map(node.child, connections))
    range_ = make_range(0, 10, 2, 5)
    node.core.forward(state, range_, links_of(children[:2], children))
    sent = [sent_to(connection)[0] for connection in connections]
    assert sent[0] is sent[1] is range_ and sent[2] is sent[3]
    assert ans_of(sent[2]) == (0, 10, [5])


def test_a_child_without_interest_in_force_gets_nothing() -> None:
    node = Node()
    state = node.add_sequence(end=0)
    connection = node.add_child()
    node.core.set_interest(connection, 1, [A])
    node.core.forward(state, make_range(0, 10, 5), links_of([node.child(connection)]))
    assert connection.buffer.find(KEY) is None


def test_a_new_sequence_begins_with_its_first_range() -> None:
    node = Node()
    connection = node.feed_child("c1", 1, A)
    state = node.add_sequence(end=0)
    node.core.forward(state, make_range(40, 50, 45), links_of([node.child(connection)]))
    assert [ans_of(each) for each in sent_to(connection)] == [(40, 50, [45])]
    assert epochs_of(connection) == [1]


def test_an_event_that_could_not_be_matched_is_withheld_from_clients() -> None:
    node = Node()
    state = node.add_sequence(end=0)
    router = node.feed_child("c1", 1, A)
    client = node.feed_child(LeafPeer("c2"), 2, A)
    other = node.feed_child(LeafPeer("c3"), 3, B)
    matched, unmatched, last = links_of(*[[node.child(router), node.child(client)]] * 3)
    links = [matched, Unmatched(unmatched), last]
    node.core.forward(state, make_range(0, 9, 2, 5, 7), links)
    assert [ans_of(each) for each in sent_to(router)] == [(0, 9, [2, 5, 7])]
    (sent,) = sent_to(client)
    assert [(event.mark[1], event.level) for event in sent.events] == [
        (2, 0),
        (5, WITHHELD),
        (7, 0),
    ]
    assert node.child(client).withheld == 1 and node.child(other).withheld == 0


def test_an_event_above_the_clearance_of_a_child_is_stated_as_withheld() -> None:
    node = Node()
    state = node.add_sequence(end=0)
    connections = [node.feed_child(f"c{n}", n, A, clearance=n) for n in range(3)]
    children = list(map(node.child, connections))
    events = [make_event(an, level=level) for an, level in ((2, 1), (3, 2), (4, 2), (6, 0), (9, 1))]
    others = node.feed_child("other", 7, B, clearance=0)
    links = links_of(*[children] * 5)
    node.core.forward(state, EventRange.of_events(0, 9, events), links)
    sent = [sent_to(connection) for connection in connections]
    found = [[(e.mark[1], e.level) for (each,) in [those] for e in each.events] for those in sent]
    assert found == [
        [(2, WITHHELD), (3, WITHHELD), (4, WITHHELD), (6, 0), (9, WITHHELD)],
        [(2, 1), (3, WITHHELD), (4, WITHHELD), (6, 0), (9, 1)],
        [(2, 1), (3, 2), (4, 2), (6, 0), (9, 1)],
    ]
    assert [each.withheld for each in children] == [4, 2, 0]
    # An event that the child does not want is filtered, not withheld.
    others.buffer.flush_empty()
    assert [ans_of(each) for each in sent_to(others)] == [(0, 9, [])]
