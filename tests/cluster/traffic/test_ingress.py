"""What enters a unit by a node that has sent nothing of the origin on."""

from __future__ import annotations

from typing import cast

from broker.cluster.address import Address, UnitPath
from broker.cluster.network_state import NetworkState
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.effects import EnterUnit, SendFrame
from broker.cluster.traffic.frame import Frame, FrameEvent, Range
from broker.cluster.traffic.sender import OriginSender, OutgoingEvent
from broker.event.place import Mark

COAST = ("coast",)
HOME, ENTRY, OTHER = Address(("alps",), "a1"), Address(COAST, "c2"), Address(COAST, "c1")
ORIGIN = "0123456789abcdef"


class KnowsItsCluster:
    """As much of `NetworkState` as frames ask for that enter a cluster of two."""

    address = ENTRY

    def destinations(self) -> list[Address]:
        return [OTHER]

    def destinations_inside(self, unit: UnitPath) -> list[Address]:
        return [ENTRY, OTHER]

    def next_hop(self, target: Address, rank: int) -> str | None:
        return target.node


def sent_on(after: Mark, upto: Mark, since: Mark | None) -> Range:
    """What the entry tells the other node, of one event up to `upto` that it wants."""
    traffic = Traffic(
        cast(NetworkState, KnowsItsCluster()), "f" * 16, lambda: (1, 0), lambda origin: None
    )
    event = FrameEvent(upto, b"header", b"<event/>")
    departures = OriginSender(ORIGIN, HOME, upto)
    told = Range(Address(COAST, ""), after, upto, first_after=since)
    frame: Frame = departures.make_frame([told], [event], [0], [(1, (0,))])
    (enter,) = traffic.receive_frame(frame, 0.0)
    assert isinstance(enter, EnterUnit)
    (passed,) = traffic.send_into_unit(enter, [OutgoingEvent(event, 0, [OTHER])], 0.0)
    assert isinstance(passed, SendFrame)
    (range_,) = passed.frame.ranges
    assert range_.destination == OTHER
    return range_


def test_a_new_entry_does_not_say_that_it_has_what_came_by_another() -> None:
    # Events up to 2500 went by a gateway that was killed, some of them with it. Who begins only
    # now begins at 0; who was there has a hole.
    said = sent_on((1, 2500), (1, 2520), since=(1, 0))
    assert (said.after, said.upto, said.first_after) == ((1, 2500), (1, 2520), (1, 0))


def test_an_entry_from_the_beginning_says_no_more_than_it_was_told() -> None:
    said = sent_on((1, 0), (1, 20), since=None)
    assert (said.after, said.upto, said.first_after) == ((1, 0), (1, 20), None)


def test_of_several_that_answer_for_a_dead_origin_all_are_named_inside() -> None:
    """The one that spoke last may have less than another one."""
    traffic = Traffic(
        cast(NetworkState, KnowsItsCluster()), "f" * 16, lambda: (1, 0), lambda origin: None
    )
    keepers = {Address(("alps",), name): (1, upto) for name, upto in (("k1", 27), ("k2", 11))}
    named: list[Address] = []
    for second in range(4):
        for keeper, upto in keepers.items():
            vouched = Range(Address(COAST, ""), upto, upto)
            said = OriginSender(ORIGIN, keeper, upto).make_frame([vouched], [], [], [])
            for effect in traffic.receive_frame(said, second):
                if isinstance(effect, EnterUnit):
                    traffic.send_into_unit(effect, [], second)
        told = [each for each in traffic.send_progress(second) if isinstance(each, SendFrame)]
        named += [each.frame.origin_node for each in told]
    assert set(named) == set(keepers)
    # One that is gone is forgotten.
    for second in range(4, 40):
        traffic.receive_frame(said, second)
    for second in range(40, 400):
        traffic.receive_frame(said, second)
        for each in traffic.send_progress(second):
            assert isinstance(each, SendFrame) and each.frame.origin_node == keeper


FAR = Address(("sea",), "")


def passing(last: int, *, enters: bool) -> Frame:
    """One event for a unit beyond, and for this one if it `enters`."""
    event = FrameEvent((1, last), b"header", b"<event/>")
    ranges = [Range(FAR, (1, last - 1), (1, last))]
    if enters:
        ranges.append(Range(Address(COAST, ""), (1, last - 1), (1, last)))
    departures = OriginSender(ORIGIN, HOME, (1, last))
    return departures.make_frame(ranges, [event], [0], [(1, tuple(range(len(ranges))))])


class SameWay(KnowsItsCluster):
    """The way to all others leads over the other node of the cluster."""

    def next_hop(self, target: Address, rank: int) -> str | None:
        return OTHER.node


def entry() -> Traffic:
    return Traffic(cast(NetworkState, SameWay()), "f" * 16, lambda: (1, 0), lambda origin: None)


def matched(traffic: Traffic, enter: EnterUnit) -> list[Frame]:
    """Both nodes of the cluster want it."""
    assert enter.received is not None
    events = enter.frame.events_at(enter.frame.event_indices_for(enter.received.index))
    departing = [OutgoingEvent(each, 0, [ENTRY, OTHER]) for each in events]
    effects = traffic.send_into_unit(enter, departing, 0.0)
    return [each.frame for each in effects if isinstance(each, SendFrame)]


def test_what_goes_on_leaves_with_what_is_inside() -> None:
    traffic = entry()
    (enter,) = traffic.receive_frame(passing(1, enters=True), 0.0)
    assert isinstance(enter, EnterUnit)
    (frame,) = matched(traffic, enter)
    assert {each.destination for each in frame.ranges} == {FAR, OTHER}
    assert frame.marks() == [(1, 1)]
    assert traffic.release_onward(enter) == []


def test_what_passes_by_stays_behind_what_entered_before() -> None:
    traffic = entry()
    (first,) = traffic.receive_frame(passing(1, enters=True), 0.0)
    (second,) = traffic.receive_frame(passing(2, enters=False), 0.0)
    assert (
        isinstance(first, EnterUnit) and isinstance(second, EnterUnit) and second.received is None
    )
    assert [each.marks() for each in matched(traffic, first)] == [[(1, 1)]]
    (passed,) = traffic.release_onward(second)
    assert isinstance(passed, SendFrame) and passed.frame.marks() == [(1, 2)]
    (direct,) = traffic.receive_frame(passing(3, enters=False), 0.0)
    assert isinstance(direct, SendFrame)


def test_what_goes_on_need_not_wait() -> None:
    traffic = entry()
    (enter,) = traffic.receive_frame(passing(1, enters=True), 0.0)
    assert isinstance(enter, EnterUnit)
    (passed,) = traffic.release_onward(enter)
    assert isinstance(passed, SendFrame)
    assert [each.destination for each in passed.frame.ranges] == [FAR]
    (inside,) = matched(traffic, enter)
    assert [each.destination for each in inside.ranges] == [OTHER]
