"""The order in which recovered events are given: a pure function on columns (DESIGN 5, X6).

Three orders hold, where they can:

a. each origin's events by mark: a client that breaks off at any event resumes from its marks;
b. each publisher's events (ClientId and incarnation) by sequence number, wherever they were logged;
c. if asked for, the order that a protocol stack gave.

Within these, by arrival. Each order is a set of *chains*, and a chain's members have *ranks*. An
event may come when each lower rank of its chains has come; of one EventId that was logged at two
places the first to come counts, and the other need not be waited for: it is dropped later.

Events that are sorted by arrival mostly keep all of it. What does not, since clocks differ or a
publisher moved, lies in stretches that are found by numpy, and each of them alone is merged. Orders
that contradict each other can not come of real runs; then (a) holds, and the earliest event that it
allows comes next.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]


@attrs.frozen(eq=False)
class OrderKeys:
    """What the order of events depends on: columns of one length.

    The numbers of origins stand for them in the order of their names, those of publishers in any.
    No place occurs twice.
    """

    origin: Integers
    epoch: Integers
    offset: Integers
    arrival: Integers
    publisher: Integers
    """A number for each (ClientId, incarnation)."""
    sequence: Integers
    timestamp: Integers
    stack: Integers | None = None
    """Where the order of protocol stacks is wanted: the stack's number, negative for none."""
    stack_order: Integers | None = None

    def select(self, rows: Integers, *, stacks: bool = False) -> OrderKeys:
        """The keys of these rows alone, with those of stacks or without."""
        columns = [self.origin, self.epoch, self.offset, self.arrival, self.publisher]
        columns += [self.sequence, self.timestamp]
        if stacks and self.stack is not None and self.stack_order is not None:
            columns += [self.stack, self.stack_order]
        return OrderKeys(*(column[rows] for column in columns))


@attrs.frozen(eq=False)
class EventOrder:
    """Rows in their order."""

    rows: Integers
    contradictions: int
    """How often no event could come without breaking (b) or (c)."""


@attrs.frozen(eq=False)
class _Chains:
    """One of the three orders, for rows that are numbered as they are sorted by arrival."""

    chain: Integers
    """Which chain a row is in; the chain's first rank is its number."""
    rank: Integers
    """Ranks of one chain follow each other without a hole; chains have no rank in common."""
    first: Integers
    """By rank: the first row that has it."""
    reach: Integers
    """The last of the rows that must have come before this one, as it is sorted."""


def order_events(keys: OrderKeys) -> EventOrder:
    """The order of these events; a row whose order nothing decides stays behind none."""
    by_arrival = np.lexsort((keys.offset, keys.epoch, keys.origin, keys.arrival))
    orders = [
        _build_chains(by_arrival, keys.origin, keys.epoch, keys.offset),
        _build_chains(by_arrival, keys.publisher, keys.sequence, keys.timestamp),
    ]
    if keys.stack is not None and keys.stack_order is not None:
        alone = keys.stack < 0
        # Without a stack each is a chain of its own.
        stack = np.where(alone, -1 - np.arange(len(alone)), keys.stack)
        orders.append(_build_chains(by_arrival, stack, np.where(alone, 0, keys.stack_order)))
    places = np.arange(len(by_arrival))
    contradictions = 0
    for start, end in _find_unordered_stretches(orders):
        places[start:end], broken = _StretchMerge(orders, start, end).run()
        contradictions += broken
    return EventOrder(by_arrival[places], contradictions)


def mark_first_of_each(*columns: Integers) -> NDArray[np.bool_]:
    """Which rows are the first with their values, in the order of rows."""
    size = len(columns[0])
    order = np.lexsort(columns)
    is_first = np.ones(size, dtype=np.bool_)
    # lexsort is stable: behind the first of equal ones stand the later ones.
    is_first[order[1:]] = _mark_changes(order, columns)[1:]
    return is_first


def _mark_changes(order: Integers, columns: Sequence[Integers]) -> NDArray[np.bool_]:
    """Where, in that order of rows, a row differs from the one before it."""
    changes = np.zeros(len(order), dtype=np.bool_)
    if len(order):
        changes[0] = True
    for column in columns:
        values = column[order]
        changes[1:] |= values[1:] != values[:-1]
    return changes


def _build_chains(by_arrival: Integers, chain: Integers, *values: Integers) -> _Chains:
    size = len(by_arrival)
    chain, columns = chain[by_arrival], [each[by_arrival] for each in values]
    order = np.lexsort((*reversed(columns), chain))
    new_chain = _mark_changes(order, [chain])
    new_rank = _mark_changes(order, [chain, *columns])
    rank_of = np.cumsum(new_rank) - 1
    first = order[new_rank]
    # A running maximum within each chain: chains lie behind each other, so each gets a floor that
    # is above all of those before it.
    floor = np.cumsum(new_chain)[new_rank] * size
    highest = np.maximum.accumulate(first + floor) - floor
    before = np.full(len(first), -1)
    before[1:] = np.where(new_chain[new_rank][1:], -1, highest[:-1])
    rank, reach, chain_of = np.empty((3, size), dtype=np.int64)
    rank[order] = rank_of
    reach[order] = before[rank_of]
    chain_of[order] = rank_of[np.maximum.accumulate(np.where(new_chain, np.arange(size), 0))]
    return _Chains(chain_of, rank, first, reach)


def _find_unordered_stretches(orders: Sequence[_Chains]) -> list[tuple[int, int]]:
    """(start, end) of rows that are not in order as they are sorted; none reaches into another."""
    reach = np.maximum.reduce([each.reach for each in orders])
    late = np.flatnonzero(reach > np.arange(len(reach)))
    if not len(late):
        return []
    ends = np.maximum.accumulate(reach[late]) + 1
    apart = np.flatnonzero(late[1:] >= ends[:-1])
    starts = late[np.concatenate(([0], apart + 1))]
    return list(zip(starts.tolist(), ends[np.append(apart, len(late) - 1)].tolist(), strict=True))


class _StretchMerge:
    """The events of one stretch, from a queue for each origin."""

    def __init__(self, orders: Sequence[_Chains], start: int, end: int) -> None:
        rows = np.arange(start, end)
        origins = orders[0]
        in_order = rows[np.argsort(origins.rank[start:end], kind="stable")]
        self._queues: dict[int, list[int]] = defaultdict(list)
        for row, origin in zip(
            in_order[::-1].tolist(), origins.chain[in_order[::-1]].tolist(), strict=True
        ):
            self._queues[origin].append(row)
        self._start = start
        # (chain, rank) of each row in each order but that of origins, which the queues keep.
        self._ranks = [
            tuple(zip(chain, rank, strict=True))
            for chain, rank in (
                (each.chain[start:end].tolist(), each.rank[start:end].tolist())
                for each in orders[1:]
            )
        ]
        self._next_rank = self._first_ranks(orders[1:], start, end)
        self._origin_of = origins.chain[start:end].tolist()
        self._ready: list[int] = []
        self._waiting: dict[tuple[int, int], list[int]] = defaultdict(list)
        self._parked: dict[int, tuple[int, int]] = {}
        self._passed_ranks: set[tuple[int, int]] = set()

    @staticmethod
    def _first_ranks(orders: Sequence[_Chains], start: int, end: int) -> dict[tuple[int, int], int]:
        """By order and chain the lowest rank that has not come before the stretch."""
        first: dict[tuple[int, int], int] = {}
        for number, each in enumerate(orders):
            chains, ranks = each.chain[start:end], each.rank[start:end]
            is_open = each.first[ranks] >= start
            for chain, rank in zip(chains[is_open].tolist(), ranks[is_open].tolist(), strict=True):
                key = (number, chain)
                first[key] = min(first.get(key, rank), rank)
        return first

    def run(self) -> tuple[Integers, int]:
        """The rows in their order, and how often none could come."""
        found: list[int] = []
        broken = 0
        for queue in self._queues.values():
            self._enqueue(queue[-1])
        while self._ready or self._parked:
            if self._ready:
                row = heapq.heappop(self._ready)
            else:
                broken += 1
                row = min(self._parked)
                self._waiting[self._parked.pop(row)].remove(row)
            found.append(row)
            queue = self._queues[self._origin_of[row - self._start]]
            queue.pop()
            self._advance_chains(row)
            if queue:
                self._enqueue(queue[-1])
        return np.array(found, dtype=np.int64), broken

    def _enqueue(self, row: int) -> None:
        """The first row of a queue: ready, or it waits for a chain."""
        for number, row_ranks in enumerate(self._ranks):
            chain, rank = row_ranks[row - self._start]
            key = (number, chain)
            if rank > self._next_rank.get(key, rank):
                self._parked[row] = key
                self._waiting[key].append(row)
                return
        heapq.heappush(self._ready, row)

    def _advance_chains(self, row: int) -> None:
        for number, row_ranks in enumerate(self._ranks):
            chain, rank = row_ranks[row - self._start]
            key = (number, chain)
            if rank < self._next_rank.get(key, rank + 1):
                continue
            self._passed_ranks.add((number, rank))
            while (number, self._next_rank[key]) in self._passed_ranks:
                self._next_rank[key] += 1
            for waiting in self._waiting.pop(key, ()):
                del self._parked[waiting]
                self._enqueue(waiting)
