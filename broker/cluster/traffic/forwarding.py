"""Routes for the parts of a frame: to this node, into its unit, or to neighbours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.address import Address, is_within
from broker.cluster.traffic.frame import Frame

NextHop: TypeAlias = Callable[[Address, int], str | None]


GROUP = ""


@attrs.frozen
class FrameRoutes:
    """Indices of a frame's ranges, by route."""

    local: tuple[int, ...]
    entering: tuple[int, ...]
    """Events are matched against the interest inside."""
    by_hop: dict[str, dict[int, int]]
    """Each index with the highest rank that its route is cleared for."""
    unroutable: int
    """Ranges without a route, or over the hop limit."""
    denied: int
    """Events above the clearance of their route."""


def has_transit_ranges(frame: Frame, own: Address) -> bool:
    """Return True if part of a frame only passes through."""
    return any(
        each.destination != own
        and (each.destination.node or not is_within(own.unit, each.destination.unit))
        for each in frame.ranges
    )


def route_frame(frame: Frame, own: Address, next_hop: NextHop) -> FrameRoutes:
    """Return the routes of a frame's ranges.

    A range prefers the route that is cleared for the whole frame, then one for its own events. Else
    it takes the route with the highest clearance, and loses the events above.
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
    for level in range(needed, -1, -1):
        hop = next_hop(destination, level)
        if hop is not None:
            return level, hop
    return 0, None


def frames_by_hop(
    frame: Frame, by_hop: dict[str, dict[int, int]], group: Collection[str] = ()
) -> dict[str, Frame]:
    """Return the frame for each neighbour, with each event at most once.

    That under `GROUP` is for several neighbours, which do not forward it.
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


def pack_contents(frames: Mapping[str, Frame], *, documents: bool) -> dict[str, Frame]:
    """Compress records, and `documents` too. Equal contents are compressed once."""
    by_body: dict[int, Frame] = {}
    packed: dict[str, Frame] = {}
    for hop, frame in frames.items():
        first = by_body.get(id(frame.body))
        if first is None:
            packed[hop] = by_body[id(frame.body)] = frame.compressed(documents=documents)
        else:
            packed[hop] = frame.with_content_of(first)
    return packed


def _gather_for_group(
    frame: Frame, by_hop: dict[str, dict[int, int]], group: Collection[str], rank: int
) -> dict[str, dict[int, int]]:
    """Move ranges to `GROUP`, if that saves at least half of the events sent."""
    shared = {
        index: cap
        for hop in by_hop.keys() & group
        for index, cap in by_hop[hop].items()
        if cap >= rank and frame.ranges[index].destination.node == hop
    }
    recipient_counts = [
        (count, len(shared.keys() & set(indices))) for count, indices in frame.recipient_runs
    ]
    copies = sum([count * times for count, times in recipient_counts])
    once = sum([count for count, times in recipient_counts if times])
    if len(shared) < 2 or copies < 2 * once:
        return by_hop
    rest = {
        hop: left
        for hop, max_ranks in by_hop.items()
        if (left := {index: cap for index, cap in max_ranks.items() if index not in shared})
    }
    return {**rest, GROUP: dict(sorted(shared.items()))}
