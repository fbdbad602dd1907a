from __future__ import annotations

from typing import cast

import attrs
import pytest

from broker.cluster.traffic.effects import ReadPage, SendFrame, SendMessage
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.frame_content import ZSTD_RECORDS
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import PageRequest
from broker.cluster.traffic.page_readers import MAX_REPEATS
from broker.testing.core_network import CoreNetwork
from broker.testing.core_node import CoreNode, carried
from tests.cluster.traffic.frames import frame


@pytest.fixture
def line() -> CoreNetwork:
    """a - b - c in one cluster; c has interest in 7."""
    nodes = CoreNetwork(1)
    for name in "abc":
        nodes.add_node(name, ("x",))
    nodes.link_nodes("a", "b")
    nodes.link_nodes("b", "c")
    nodes.nodes["c"].announce_interest(1, (7, 7))
    nodes.run(10.0)
    return nodes


def numbers(node: CoreNode, origin: CoreNode) -> list[int]:
    return [each.number for each in node.log.events if each.origin == origin.log.origin]


def make_request(line: CoreNetwork, asker: str, origin: str, after: int) -> PageRequest:
    source, target = (line.nodes[name].state.address for name in (asker, origin))
    return PageRequest(target, source, MAX_HOPS, line.nodes[origin].log.origin, (1, after))


def test_a_node_without_interest_forwards_events(line: CoreNetwork) -> None:
    a, b, c = (line.nodes[name] for name in "abc")
    a.publish([(7, 0), (8, 0), (7, 0)])
    line.run(1.0)
    assert numbers(c, a) == [7, 7] and numbers(b, a) == []
    assert b.traffic.counts.transit and c.log.covered[a.log.origin] == (1, 3)


def test_a_part_of_a_compressed_frame_is_compressed_again(line: CoreNetwork) -> None:
    a, b, c = (line.nodes[name].state.address for name in "abc")
    made = frame(
        [Range(each, (1, 0), (1, 4)) for each in (b, c)],
        [((1, place), b"<a/>", 0) for place in (1, 2, 3, 4)],
        [(2, (0,)), (2, (0, 1))],
        line.nodes["a"].log.origin,
    )
    record = b"r" * 400
    made = attrs.evolve(made, origin_node=a, records=record * 4, record_lengths=[400] * 4)
    received = made.compressed(documents=False)
    (sent,) = (
        each
        for each in line.nodes["b"].traffic.receive_frame(received, line.now)
        if isinstance(each, SendFrame)
    )
    assert sent.neighbour == "c" and sent.frame.encoding == ZSTD_RECORDS
    assert [(each.mark, each.record) for each in sent.frame.events_at([0, 1])] == [
        ((1, 3), record),
        ((1, 4), record),
    ]


def test_a_message_for_another_node_is_forwarded_with_one_hop_less(line: CoreNetwork) -> None:
    b = line.nodes["b"].traffic
    request = make_request(line, "c", "a", 0)
    effects = b.receive_message(request, line.now)
    assert [type(each) for each in effects] == [SendMessage]
    assert effects[0].neighbour == "a" and effects[0].message.hops == MAX_HOPS - 1  # type: ignore[union-attr]


def test_a_page_request_for_an_unknown_origin_is_counted(line: CoreNetwork) -> None:
    a = line.nodes["a"]
    request = make_request(line, "c", "b", 0)
    wrong = PageRequest(a.state.address, request.source, 3, request.origin, (1, 0))
    assert a.traffic.receive_message(wrong, line.now) == []
    assert a.traffic.counts.unknown == 1


def test_an_unknown_reader_gets_no_page(line: CoreNetwork) -> None:
    a = line.nodes["a"]
    line.cut_link("a", "b")
    line.run(1.0)
    assert a.traffic.receive_message(make_request(line, "c", "a", 0), line.now) == []
    assert a.traffic.counts.unknown == 1


def pages(line: CoreNetwork, times: int) -> list[list[int]]:
    """Return the levels of the events sent to a reader that repeats one request."""
    a = line.nodes["a"]
    a.publish([(7, 2), (7, 0)])
    line.run(1.0)
    request = make_request(line, "c", "a", 0)
    events = [carried(each) for each in a.log.own_events]
    page = Range(request.source, (1, 0), (1, 2))
    sent = []
    for _ in range(times):
        assert a.traffic.receive_message(request, line.now) == [ReadPage(request)]
        passed = a.traffic.send_page(request, [(page, events)], line.now)
        sent.append(
            [level for each in passed for level in cast(SendFrame, each).frame.event_ranks()]
        )
    return sent


def test_a_lost_page_is_sent_again_for_each_request(
    line: CoreNetwork,
) -> None:
    # It may be lost, or the reader can not log it.
    assert pages(line, 4 * MAX_REPEATS) == [[2, 0]] * 4 * MAX_REPEATS


def test_events_on_a_separate_route_are_left_out_after_repeated_requests(
    line: CoreNetwork,
) -> None:
    line.link_nodes("a", "c", clearance=0)
    line.run(10.0)
    assert pages(line, MAX_REPEATS + 2) == [[2, 0]] * MAX_REPEATS + [[0], [0]]


def test_an_idle_reader_expires(line: CoreNetwork) -> None:
    a = line.nodes["a"]
    a.traffic.receive_message(make_request(line, "c", "a", 0), line.now)
    assert a.traffic.snapshot().readers == 1
    timeout = a.traffic.next_timeout()
    assert timeout is not None
    a.traffic.handle_timeout(timeout)
    assert a.traffic.snapshot().readers == 0


def test_unreached_cuts_are_stored_until_they_are_reached(line: CoreNetwork) -> None:
    a, c = line.nodes["a"], line.nodes["c"]
    a.publish([(8, 0)])
    line.run(0.05)
    c.traffic.record_cuts({a.log.origin: (1, 1)}, line.now)
    assert c.traffic.unreached_cuts() == {a.log.origin: (1, 1)}
    line.run(3.0)
    assert c.traffic.unreached_cuts() == {}
