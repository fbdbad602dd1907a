"""Where the parts of a frame go: here, into the unit that begins here, or on to neighbours."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeAlias

import attrs

from broker.cluster.address import Address, is_within
from broker.cluster.traffic.frame import Frame

#: The neighbour to which what is for a destination goes, on a way that is cleared for a rank.
NextHop: TypeAlias = Callable[[Address, int], str | None]


#: Stands for all members of the group in the place of a neighbour's name.
GROUP = ""


@attrs.frozen
class Division:
    """The indices of a frame's destinations, by what is to be done."""

    here: tuple[int, ...]
    """For this node."""
    entering: tuple[int, ...]
    """For a unit that this node is in: to be matched again, against what is inside."""
    onward: dict[str, dict[int, int]]
    """By neighbour: each with the highest security level for which there is a way."""
    stuck: int
    """How many there is no way to, or that have come around too many corners."""
    denied: int
    """Events of destinations to which the way is cleared for lower levels only."""


def divide(frame: Frame, own: Address, next_hop: NextHop) -> Division:
    """Where each of the frame's destinations is.

    What is cleared for all of the frame goes one way. A destination to which there is no such way
    goes the way of its own events; if some of those may not go there, it gets the others.
    """
    here: list[int] = []
    entering: list[int] = []
    onward: dict[str, dict[int, int]] = {}
    stuck = denied = 0
    rank = frame.rank
    for index, each in enumerate(frame.ranges):
        destination = each.destination
        if destination == own:
            here.append(index)
            continue
        if not destination.node and is_within(own.unit, destination.unit):
            entering.append(index)
            continue
        level, hop = rank, next_hop(destination, rank) if frame.hops else None
        if hop is None and rank and frame.hops:
            needed = frame.rank_of(index)
            level, hop = _cleared_way(destination, needed, next_hop)
            if hop is not None and level < needed:
                levels = frame.levels()
                denied += sum(levels[i] > level for i in frame.wanted(index))
        if hop is None:
            stuck += 1
        else:
            onward.setdefault(hop, {})[index] = level
    return Division(tuple(here), tuple(entering), onward, stuck, denied)


def _cleared_way(destination: Address, needed: int, next_hop: NextHop) -> tuple[int, str | None]:
    """The way for the highest level, not over the one that is needed, for which there is one."""
    for level in range(needed, -1, -1):
        hop = next_hop(destination, level)
        if hop is not None:
            return level, hop
    return 0, None


def parts(
    frame: Frame, onward: dict[str, dict[int, int]], group: Collection[str] = ()
) -> dict[str, Frame]:
    """What goes to each neighbour: each event at most once.

    Under `GROUP` stands what goes to several neighbours of an IP multicast `group` at once: they
    are its destinations, no others take it from there.
    """
    rank = frame.rank
    if group:
        onward = _shared(frame, onward, group, rank)
    onwards = attrs.evolve(frame, hops=frame.hops - 1)
    return {
        hop: onwards
        if len(caps) == len(frame.ranges) and min(caps.values()) >= rank
        else onwards.narrowed(caps)
        for hop, caps in onward.items()
    }


def _shared(
    frame: Frame, onward: dict[str, dict[int, int]], group: Collection[str], rank: int
) -> dict[str, dict[int, int]]:
    """The same with what is for members of the group together, where that saves half at least."""
    shared = {
        index: cap
        for hop in onward.keys() & group
        for index, cap in onward[hop].items()
        if cap >= rank and frame.ranges[index].destination.node == hop
    }
    wanted = [(count, len(shared.keys() & set(indices))) for count, indices in frame.runs]
    copies = sum([count * times for count, times in wanted])
    once = sum([count for count, times in wanted if times])
    if len(shared) < 2 or copies < 2 * once:
        return onward
    rest = {
        hop: left
        for hop, caps in onward.items()
        if (left := {index: cap for index, cap in caps.items() if index not in shared})
    }
    return {**rest, GROUP: dict(sorted(shared.items()))}
