"""Requests, pages and positions that take another route than the last attempt."""

from __future__ import annotations

from typing import cast

import pytest

from broker.cluster.traffic.effects import MOST_COUNTED, ReadPage, SendFrame, TrafficCounts
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceiverEffect, RequestPage
from broker.testing.core_network import CoreNetwork
from broker.testing.core_node import carried
from tests.cluster.traffic.test_core import make_request, numbers
from tests.cluster.traffic.test_receiver import Log


@pytest.fixture
def ring() -> CoreNetwork:
    """a - b - d and a - c - d in one cluster; d has interest in 7."""
    nodes = CoreNetwork(1)
    for name in "abcd":
        nodes.add_node(name, ("x",))
    for pair in ("ab", "ac", "bd", "cd"):
        nodes.link_nodes(*pair)
    nodes.nodes["d"].announce_interest(1, (7, 7))
    nodes.run(10.0)
    return nodes


def drop_frames_over(ring: CoreNetwork, name: str) -> None:
    """Let a node drop all frames."""
    traffic = ring.nodes[name].traffic
    traffic.receive_frame = lambda *_: []  # type: ignore[method-assign]


def test_a_node_on_the_shortest_route_drops_frames_and_all_events_arrive(
    ring: CoreNetwork,
) -> None:
    a, d = ring.nodes["a"], ring.nodes["d"]
    assert a.state.next_hop(d.state.address, 0) == "b"
    drop_frames_over(ring, "b")
    for _ in range(3):
        a.publish([(7, 0)])
    ring.run(60.0)
    assert numbers(d, a) == [7, 7, 7]
    # Some requests and pages went over the node that drops them.
    assert d.traffic.counts.unanswered["b"] > 0


def test_repeated_pages_take_another_route(ring: CoreNetwork) -> None:
    a = ring.nodes["a"]
    a.publish([(7, 0)])
    ring.run(1.0)
    request = make_request(ring, "d", "a", 0)
    events = [carried(each) for each in a.log.own_events]
    hops = []
    for _ in range(3):
        assert a.traffic.receive_message(request, ring.now) == [ReadPage(request)]
        page = Range(request.source, (1, 0), (1, 1))
        (sent,) = a.traffic.send_page(request, [(page, events)], ring.now)
        hops.append(cast(SendFrame, sent).neighbour)
    assert hops == ["b", "c", "b"]


def test_unanswered_requests_are_counted_for_a_bounded_number_of_neighbours() -> None:
    counts = TrafficCounts()
    for number in range(MOST_COUNTED + 2):
        counts.record_unanswered(f"n{number}")
    counts.record_unanswered("n0")
    counts.record_unanswered(None)
    assert len(counts.unanswered) == MOST_COUNTED + 1
    assert (counts.unanswered["n0"], counts.unanswered[""]) == (2, 2)


def attempt_of(effects: list[ReceiverEffect]) -> int:
    (request,) = effects
    assert isinstance(request, RequestPage)
    return request.attempt


def test_requests_count_attempts_until_the_position_advances() -> None:
    log = Log(o=(1, 5))
    log.receive(7, 9)
    log.receive(10, 11)
    receiver = log.receiver
    for attempt in range(3):
        assert attempt_of(receiver.handle_timeout(receiver.next_timeout() or 0.0)) == attempt
    assert log.receive(5, 7) == [("take", 5, 7, 5), ("take", 7, 9, 7)]
    assert attempt_of(receiver.handle_timeout(receiver.next_timeout() or 0.0)) == 0
