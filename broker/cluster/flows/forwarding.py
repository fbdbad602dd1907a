"""Where the parts of a frame go: here, into the unit that begins here, or on to neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import attrs

from broker.cluster.address import Address, is_within
from broker.cluster.flows.frame import Frame

#: The neighbour to which what is for a destination goes, on a way that is cleared for a rank.
NextHop: TypeAlias = Callable[[Address, int], str | None]


@attrs.frozen
class Division:
    """The indices of a frame's destinations, by what is to be done."""

    here: tuple[int, ...]
    """For this node."""
    entering: tuple[int, ...]
    """For a unit that this node is in: to be matched again, against what is inside."""
    onward: dict[str, list[int]]
    """By neighbour."""
    stuck: int
    """How many there is no way to, or that have come around too many corners."""


def divide(frame: Frame, own: Address, next_hop: NextHop) -> Division:
    """Where each of the frame's destinations is."""
    here: list[int] = []
    entering: list[int] = []
    onward: dict[str, list[int]] = {}
    stuck = 0
    for index, each in enumerate(frame.ranges):
        destination = each.destination
        if destination == own:
            here.append(index)
        elif not destination.node and is_within(own.unit, destination.unit):
            entering.append(index)
        elif frame.hops and (hop := next_hop(destination, frame.rank)) is not None:
            onward.setdefault(hop, []).append(index)
        else:
            stuck += 1
    return Division(tuple(here), tuple(entering), onward, stuck)


def parts(frame: Frame, onward: dict[str, list[int]]) -> dict[str, Frame]:
    """What goes to each neighbour: each event at most once."""
    onwards = attrs.evolve(frame, hops=frame.hops - 1)
    return {
        hop: onwards if len(indices) == len(frame.ranges) else onwards.narrowed(indices)
        for hop, indices in onward.items()
    }
