from __future__ import annotations

from typing import cast

from broker.cluster.address import Address, UnitPath
from broker.cluster.network_state import NetworkState
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.effects import EnterUnit, SendFrame
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.sender import OriginSender, OutgoingEvent
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent

COAST = ("coast",)
HOME, ENTRY, OTHER = Address(("alps",), "a1"), Address(COAST, "c2"), Address(COAST, "c1")
ORIGIN = "0123456789abcdef"


class ClusterState:
    """The part of `NetworkState` for frames that enter a cluster of two."""

    address = ENTRY

    def is_outside_map(self, node: Address) -> bool:
        return False

    def destinations(self) -> list[Address]:
        return [OTHER]

    def destinations_inside(self, unit: UnitPath) -> list[Address]:
        return [ENTRY, OTHER]

    def next_hop(self, target: Address, rank: int) -> str | None:
        return target.node


def forwarded_range(after: Mark, upto: Mark, since: Mark | None) -> Range:
    """Return the range that the entry node sends to the other node, for one event at `upto`."""
    traffic = Traffic(
        cast(NetworkState, ClusterState()), "f" * 16, lambda: (1, 0), lambda origin: None
    )
    event = CarriedEvent(upto, b"header", b"<event/>")
    departures = OriginSender(ORIGIN, HOME, upto)
    span2 = Range(Address(COAST, ""), after, upto, first_after=since)
    frame: Frame = departures.make_frame([span2], [event], [0], [(1, (0,))])
    (enter,) = traffic.receive_frame(frame, 0.0)
    assert isinstance(enter, EnterUnit)
    (passed,) = traffic.send_into_unit(enter, [OutgoingEvent(event, 0, frozenset([OTHER]))], 0.0)
    assert isinstance(passed, SendFrame)
    (range_,) = passed.frame.ranges
    assert range_.destination == OTHER
    return range_


def test_a_new_entry_claims_no_events_that_another_node_forwarded() -> None:
    # Events up to 2500 went through a gateway that was killed. A new node starts at 0; an old one
    # has a missing range.
    span = forwarded_range((1, 2500), (1, 2520), since=(1, 0))
    assert (span.after, span.upto, span.first_after) == ((1, 2500), (1, 2520), (1, 0))


def test_an_entry_from_the_start_claims_only_its_range() -> None:
    span = forwarded_range((1, 0), (1, 20), since=None)
    assert (span.after, span.upto, span.first_after) == ((1, 0), (1, 20), None)


def test_all_replica_nodes_of_a_dead_origin_are_named_in_turn() -> None:
    """The last one may lag behind another."""
    traffic = Traffic(
        cast(NetworkState, ClusterState()), "f" * 16, lambda: (1, 0), lambda origin: None
    )
    replica_nodes = {Address(("alps",), name): (1, upto) for name, upto in (("k1", 27), ("k2", 11))}
    origin_nodes: list[Address] = []
    for second in range(4):
        for replica_node, upto in replica_nodes.items():
            span = Range(Address(COAST, ""), upto, upto)
            announcement = OriginSender(ORIGIN, replica_node, upto).make_frame([span], [], [], [])
            for effect in traffic.receive_frame(announcement, second):
                if isinstance(effect, EnterUnit):
                    traffic.send_into_unit(effect, [], second)
        sent = [each for each in traffic.send_progress(second) if isinstance(each, SendFrame)]
        origin_nodes += [each.frame.origin_node for each in sent]
    assert set(origin_nodes) == set(replica_nodes)
    # A silent replica node is forgotten.
    for second in range(4, 40):
        traffic.receive_frame(announcement, second)
    for second in range(40, 400):
        traffic.receive_frame(announcement, second)
        for each in traffic.send_progress(second):
            assert isinstance(each, SendFrame) and each.frame.origin_node == replica_node


FAR = Address(("sea",), "")


def passing_frame(last: int, *, enters: bool) -> Frame:
    """Return a frame with one event for a unit beyond, and for this one if it `enters`."""
    event = CarriedEvent((1, last), b"header", b"<event/>")
    ranges = [Range(FAR, (1, last - 1), (1, last))]
    if enters:
        ranges.append(Range(Address(COAST, ""), (1, last - 1), (1, last)))
    departures = OriginSender(ORIGIN, HOME, (1, last))
    return departures.make_frame(ranges, [event], [0], [(1, tuple(range(len(ranges))))])


class SingleRouteState(ClusterState):
    """All routes lead over the other node of the cluster."""

    def next_hop(self, target: Address, rank: int) -> str | None:
        return OTHER.node


def make_entry() -> Traffic:
    return Traffic(
        cast(NetworkState, SingleRouteState()), "f" * 16, lambda: (1, 0), lambda origin: None
    )


def forward_matched(traffic: Traffic, enter: EnterUnit) -> list[Frame]:
    assert enter.received is not None
    events = enter.frame.events_at(enter.frame.event_indices_for(enter.received.index))
    departing = [OutgoingEvent(each, 0, frozenset([ENTRY, OTHER])) for each in events]
    effects = traffic.send_into_unit(enter, departing, 0.0)
    return [each.frame for each in effects if isinstance(each, SendFrame)]


def test_onward_and_inner_events_leave_in_one_frame() -> None:
    traffic = make_entry()
    (enter,) = traffic.receive_frame(passing_frame(1, enters=True), 0.0)
    assert isinstance(enter, EnterUnit)
    (frame,) = forward_matched(traffic, enter)
    assert {each.destination for each in frame.ranges} == {FAR, OTHER}
    assert frame.marks() == [(1, 1)]
    assert traffic.release_onward(enter) == []


def test_onward_frames_stay_behind_earlier_matches() -> None:
    traffic = make_entry()
    (first,) = traffic.receive_frame(passing_frame(1, enters=True), 0.0)
    (second,) = traffic.receive_frame(passing_frame(2, enters=False), 0.0)
    assert (
        isinstance(first, EnterUnit) and isinstance(second, EnterUnit) and second.received is None
    )
    assert [each.marks() for each in forward_matched(traffic, first)] == [[(1, 1)]]
    (passed,) = traffic.release_onward(second)
    assert isinstance(passed, SendFrame) and passed.frame.marks() == [(1, 2)]
    (direct,) = traffic.receive_frame(passing_frame(3, enters=False), 0.0)
    assert isinstance(direct, SendFrame)


def test_onward_frames_can_be_released_early() -> None:
    traffic = make_entry()
    (enter,) = traffic.receive_frame(passing_frame(1, enters=True), 0.0)
    assert isinstance(enter, EnterUnit)
    (passed,) = traffic.release_onward(enter)
    assert isinstance(passed, SendFrame)
    assert [each.destination for each in passed.frame.ranges] == [FAR]
    (inside,) = forward_matched(traffic, enter)
    assert [each.destination for each in inside.ranges] == [OTHER]
