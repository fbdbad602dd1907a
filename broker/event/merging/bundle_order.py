"""Order of a finished set of events by their bundle numbers."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from broker.event.merging.held_event import BundleKey, HeldEvent, SortKey

T = TypeVar("T")


def order_by_bundles(events: Sequence[HeldEvent[T]]) -> list[HeldEvent[T]]:
    """Order each bundle by its numbers, and the rest by time stamp and key.

    An event of several bundles takes its place in each (M39). If bundles contradict each other, the
    first event by time stamp goes first.
    """
    follows, open_ends = _build_edges(events)
    every = [(_time_key(held), index) for index, held in enumerate(events)]
    ready = [entry for entry in every if not open_ends[entry[1]]]
    heapq.heapify(ready)
    heapq.heapify(every)
    done: set[int] = set()
    ordered: list[HeldEvent[T]] = []
    while len(ordered) < len(events):
        # In a cycle nothing is ready: its first event goes.
        _, index = heapq.heappop(ready or every)
        if index in done:
            continue
        done.add(index)
        ordered.append(events[index])
        for next_index in follows[index]:
            open_ends[next_index] -= 1
            if not open_ends[next_index]:
                heapq.heappush(ready, (_time_key(events[next_index]), next_index))
    return ordered


def _time_key(held: HeldEvent[T]) -> tuple[int, SortKey]:
    return held.time, held.key


def _build_edges(events: Sequence[HeldEvent[T]]) -> tuple[list[list[int]], list[int]]:
    """Return successors, and the numbers of predecessors."""
    follows: list[list[int]] = [[] for _ in events]
    open_ends = [0] * len(events)
    for members in _group_by_bundle(events).values():
        members.sort()
        for (_, _, before), (_, _, after) in zip(members, members[1:], strict=False):
            follows[before].append(after)
            open_ends[after] += 1
    return follows, open_ends


def _group_by_bundle(
    events: Iterable[HeldEvent[T]],
) -> dict[BundleKey, list[tuple[int, SortKey, int]]]:
    bundles: dict[BundleKey, list[tuple[int, SortKey, int]]] = defaultdict(list)
    for index, held in enumerate(events):
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            bundles[key].append((bundle.bundle_number, held.key, index))
    return bundles
