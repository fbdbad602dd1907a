"""What enters a unit by a node that has sent nothing of the origin on."""

from __future__ import annotations

from typing import cast

from broker.cluster.address import Address, UnitPath
from broker.cluster.flows.departures import Departing, Departures
from broker.cluster.flows.frame import Carried, Frame, Range
from broker.cluster.flows.traffic import Enter, Pass, Traffic
from broker.cluster.knowledge import Knowledge
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
    (passed,) = traffic.entered(enter.arrived, [Departing(event, 0, [OTHER])], 0.0)
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
