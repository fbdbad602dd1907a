"""What enters a unit by a node that has sent nothing of the origin on."""

from __future__ import annotations

from typing import cast

from broker.cluster.address import Address, UnitPath
from broker.cluster.network_state import Knowledge
from broker.cluster.traffic.core import Enter, Pass, Traffic
from broker.cluster.traffic.frame import Carried, Frame, Range
from broker.cluster.traffic.sender import Departing, Departures
from broker.event.place import Mark

COAST = ("coast",)
HOME, ENTRY, OTHER = Address(("alps",), "a1"), Address(COAST, "c2"), Address(COAST, "c1")
ORIGIN = "0123456789abcdef"


class KnowsItsCluster:
    """As much of `Knowledge` as frames ask for that enter a cluster of two."""

    address = ENTRY

    def destinations(self) -> list[Address]:
        return [OTHER]

    def inside(self, unit: UnitPath) -> list[Address]:
        return [ENTRY, OTHER]

    def next_hop(self, target: Address, rank: int) -> str | None:
        return target.node


def sent_on(after: Mark, upto: Mark, since: Mark | None) -> Range:
    """What the entry tells the other node, of one event up to `upto` that it wants."""
    traffic = Traffic(
        cast(Knowledge, KnowsItsCluster()), "f" * 16, lambda: (1, 0), lambda origin: None
    )
    event = Carried(upto, b"header", b"<event/>")
    departures = Departures(ORIGIN, HOME, upto)
    told = Range(Address(COAST, ""), after, upto, since=since)
    frame: Frame = departures.frame([told], [event], [0], [(1, (0,))])
    (enter,) = traffic.frame_came(frame, 0.0)
    assert isinstance(enter, Enter)
    (passed,) = traffic.entered(enter, [Departing(event, 0, [OTHER])], 0.0)
    assert isinstance(passed, Pass)
    (range_,) = passed.frame.ranges
    assert range_.destination == OTHER
    return range_


def test_a_new_entry_does_not_say_that_it_has_what_came_by_another() -> None:
    # Events up to 2500 went by a gateway that was killed, some of them with it. Who begins only
    # now begins at 0; who was there has a hole.
    said = sent_on((1, 2500), (1, 2520), since=(1, 0))
    assert (said.after, said.upto, said.since) == ((1, 2500), (1, 2520), (1, 0))


def test_an_entry_from_the_beginning_says_no_more_than_it_was_told() -> None:
    said = sent_on((1, 0), (1, 20), since=None)
    assert (said.after, said.upto, said.since) == ((1, 0), (1, 20), None)


def test_of_several_that_answer_for_a_dead_origin_all_are_named_inside() -> None:
    """The one that spoke last may have less than another one."""
    traffic = Traffic(
        cast(Knowledge, KnowsItsCluster()), "f" * 16, lambda: (1, 0), lambda origin: None
    )
    keepers = {Address(("alps",), name): (1, upto) for name, upto in (("k1", 27), ("k2", 11))}
    named: list[Address] = []
    for second in range(4):
        for keeper, upto in keepers.items():
            vouched = Range(Address(COAST, ""), upto, upto)
            said = Departures(ORIGIN, keeper, upto).frame([vouched], [], [], [])
            for effect in traffic.frame_came(said, second):
                if isinstance(effect, Enter):
                    traffic.entered(effect, [], second)
        told = [each for each in traffic.progress(second) if isinstance(each, Pass)]
        named += [each.frame.home for each in told]
    assert set(named) == set(keepers)
    # One that is gone is forgotten.
    for second in range(4, 40):
        traffic.frame_came(said, second)
    for second in range(40, 400):
        traffic.frame_came(said, second)
        for each in traffic.progress(second):
            assert isinstance(each, Pass) and each.frame.home == keeper


FAR = Address(("sea",), "")


def passing(last: int, *, enters: bool) -> Frame:
    """One event for a unit beyond, and for this one if it `enters`."""
    event = Carried((1, last), b"header", b"<event/>")
    ranges = [Range(FAR, (1, last - 1), (1, last))]
    if enters:
        ranges.append(Range(Address(COAST, ""), (1, last - 1), (1, last)))
    departures = Departures(ORIGIN, HOME, (1, last))
    return departures.frame(ranges, [event], [0], [(1, tuple(range(len(ranges))))])


class SameWay(KnowsItsCluster):
    """The way to all others leads over the other node of the cluster."""

    def next_hop(self, target: Address, rank: int) -> str | None:
        return OTHER.node


def entry() -> Traffic:
    return Traffic(cast(Knowledge, SameWay()), "f" * 16, lambda: (1, 0), lambda origin: None)


def matched(traffic: Traffic, enter: Enter) -> list[Frame]:
    """Both nodes of the cluster want it."""
    assert enter.arrived is not None
    events = enter.frame.carried(enter.frame.wanted(enter.arrived.index))
    departing = [Departing(each, 0, [ENTRY, OTHER]) for each in events]
    effects = traffic.entered(enter, departing, 0.0)
    return [each.frame for each in effects if isinstance(each, Pass)]


def test_what_goes_on_leaves_with_what_is_inside() -> None:
    traffic = entry()
    (enter,) = traffic.frame_came(passing(1, enters=True), 0.0)
    assert isinstance(enter, Enter)
    (frame,) = matched(traffic, enter)
    assert {each.destination for each in frame.ranges} == {FAR, OTHER}
    assert frame.marks() == [(1, 1)]
    assert traffic.late(enter) == []


def test_what_passes_by_stays_behind_what_entered_before() -> None:
    traffic = entry()
    (first,) = traffic.frame_came(passing(1, enters=True), 0.0)
    (second,) = traffic.frame_came(passing(2, enters=False), 0.0)
    assert isinstance(first, Enter) and isinstance(second, Enter) and second.arrived is None
    assert [each.marks() for each in matched(traffic, first)] == [[(1, 1)]]
    (passed,) = traffic.late(second)
    assert isinstance(passed, Pass) and passed.frame.marks() == [(1, 2)]
    (direct,) = traffic.frame_came(passing(3, enters=False), 0.0)
    assert isinstance(direct, Pass)


def test_what_goes_on_need_not_wait() -> None:
    traffic = entry()
    (enter,) = traffic.frame_came(passing(1, enters=True), 0.0)
    assert isinstance(enter, Enter)
    (passed,) = traffic.late(enter)
    assert isinstance(passed, Pass)
    assert [each.destination for each in passed.frame.ranges] == [FAR]
    (inside,) = matched(traffic, enter)
    assert [each.destination for each in inside.ranges] == [OTHER]
