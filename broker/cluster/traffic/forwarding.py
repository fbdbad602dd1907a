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
class FrameRoutes:
    """The indices of a frame's destinations, by what is to be done."""

    local: tuple[int, ...]
    """For this node."""
    entering: tuple[int, ...]
    """For a unit that this node is in: to be matched again, against what is inside."""
    by_hop: dict[str, dict[int, int]]
    """By neighbour: each with the highest security level for which there is a way."""
    unroutable: int
    """How many there is no way to, or that have come around too many corners."""
    denied: int
    """Events of destinations to which the way is cleared for lower levels only."""


def route_frame(frame: Frame, own: Address, next_hop: NextHop) -> FrameRoutes:
    """Where each of the frame's destinations is.

    What is cleared for all of the frame goes one way. A destination to which there is no such way
    goes the way of its own events; if some of those may not go there, it gets the others.
    """
    local: list[int] = []
    entering: list[int] = []
    by_hop: dict[str, dict[int, int]] = {}
    unroutable = denied = 0
    rank = frame.highest_rank
    for index, each in enumerate(frame.ranges):
        destination = each.destination
        if destination == own:
            local.append(index)
            continue
        if not destination.node and is_within(own.unit, destination.unit):
            entering.append(index)
            continue
        level, hop = rank, next_hop(destination, rank) if frame.hops else None
        if hop is None and rank and frame.hops:
            needed = frame.highest_rank_for(index)
            level, hop = _best_cleared_hop(destination, needed, next_hop)
            if hop is not None and level < needed:
                levels = frame.event_ranks()
                denied += sum(levels[i] > level for i in frame.event_indices_for(index))
        if hop is None:
            unroutable += 1
        else:
            by_hop.setdefault(hop, {})[index] = level
    return FrameRoutes(tuple(local), tuple(entering), by_hop, unroutable, denied)


def _best_cleared_hop(
    destination: Address, needed: int, next_hop: NextHop
) -> tuple[int, str | None]:
    """The way for the highest level, not over the one that is needed, for which there is one."""
    for level in range(needed, -1, -1):
        hop = next_hop(destination, level)
        if hop is not None:
            return level, hop
    return 0, None


def frames_by_hop(
    frame: Frame, by_hop: dict[str, dict[int, int]], group: Collection[str] = ()
) -> dict[str, Frame]:
    """What goes to each neighbour: each event at most once.

    Under `GROUP` stands what goes to several neighbours of an IP multicast `group` at once: they
    are its destinations, no others take it from there.
    """
    rank = frame.highest_rank
    if group:
        by_hop = _gather_for_group(frame, by_hop, group, rank)
    onwards = attrs.evolve(frame, hops=frame.hops - 1)
    return {
        hop: onwards
        if len(max_ranks) == len(frame.ranges) and min(max_ranks.values()) >= rank
        else onwards.restricted_to(max_ranks)
        for hop, max_ranks in by_hop.items()
    }


def _gather_for_group(
    frame: Frame, by_hop: dict[str, dict[int, int]], group: Collection[str], rank: int
) -> dict[str, dict[int, int]]:
    """The same with what is for members of the group together, where that saves half at least."""
    shared = {
        index: cap
        for hop in by_hop.keys() & group
        for index, cap in by_hop[hop].items()
        if cap >= rank and frame.ranges[index].destination.node == hop
    }
    wanted = [(count, len(shared.keys() & set(indices))) for count, indices in frame.recipient_runs]
    copies = sum([count * times for count, times in wanted])
    once = sum([count for count, times in wanted if times])
    if len(shared) < 2 or copies < 2 * once:
        return by_hop
    rest = {
        hop: left
        for hop, max_ranks in by_hop.items()
        if (left := {index: cap for index, cap in max_ranks.items() if index not in shared})
    }
    return {**rest, GROUP: dict(sorted(shared.items()))}
