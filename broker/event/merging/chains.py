"""The order that bundle numbers ask for in a finished set of events."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeVar

from broker.event.merging.held import BundleKey, Held, Key

T = TypeVar("T")


def chain_order(events: Sequence[Held[T]]) -> list[Held[T]]:
    """Each bundle by its numbers; what these leave open by key, whose order is the declared one.

    An event in several bundles has its turn in each (M39). Where two bundles contradict each
    other, the first by time stamp goes first.
    """
    follows, open_ends = _edges(events)
    every = [(_by_time(held), index) for index, held in enumerate(events)]
    ready = [entry for entry in every if not open_ends[entry[1]]]
    heapq.heapify(ready)
    heapq.heapify(every)
    done: set[int] = set()
    ordered: list[Held[T]] = []
    while len(ordered) < len(events):
        # Nothing is ready only in a circle: then the first of all that are left breaks it.
        _, index = heapq.heappop(ready or every)
        if index in done:
            continue
        done.add(index)
        ordered.append(events[index])
        for next_index in follows[index]:
            open_ends[next_index] -= 1
            if not open_ends[next_index]:
                heapq.heappush(ready, (_by_time(events[next_index]), next_index))
    return ordered


def _by_time(held: Held[T]) -> tuple[int, Key]:
    return held.time, held.key


def _edges(events: Sequence[Held[T]]) -> tuple[list[list[int]], list[int]]:
    """Who follows each event in its bundles, and how many each one follows."""
    follows: list[list[int]] = [[] for _ in events]
    open_ends = [0] * len(events)
    for members in _bundles(events).values():
        members.sort()
        for (_, _, before), (_, _, after) in zip(members, members[1:], strict=False):
            follows[before].append(after)
            open_ends[after] += 1
    return follows, open_ends


def _bundles(events: Iterable[Held[T]]) -> dict[BundleKey, list[tuple[int, Key, int]]]:
    bundles: dict[BundleKey, list[tuple[int, Key, int]]] = defaultdict(list)
    for index, held in enumerate(events):
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            bundles[key].append((bundle.bundle_number, held.key, index))
    return bundles
