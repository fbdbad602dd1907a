"""The order of recovered events, as a pure function on columns (DESIGN 5, X6).

It keeps these orders where possible:

a. each origin's events by mark, so that a client can resume after any event;
b. each publisher's events (ClientId and incarnation) by sequence number, at any origin;
c. on request, the order of the protocol stack.

Within these, events are ordered by arrival. Each order is a set of *chains*, whose members have
*ranks*. An event comes after all lower ranks of its chains. Of an EventId at two places, the first
to come counts; a later step drops the other.

Sorting by arrival leaves few unordered stretches, which are merged separately. If orders
contradict, (a) holds, and the earliest event that it allows comes next.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import attrs
import numpy as np
from numpy.typing import NDArray

Integers: TypeAlias = NDArray[np.int64]


class StackPlaces(NamedTuple):
    """Places in the orders of protocol stacks, as columns."""

    stack: Integers
    """Negative for none."""
    order: Integers
    site: Integers
    """It decides between equal orders. Sites are numbered in the order of their names."""


@attrs.frozen(eq=False)
class OrderKeys:
    """Columns of one length. Origins are numbered in the order of their names. No place occurs
    twice."""

    origin: Integers
    epoch: Integers
    offset: Integers
    arrival: Integers
    publisher: Integers
    """One number for each (ClientId, incarnation)."""
    sequence: Integers
    timestamp: Integers
    stacks: StackPlaces | None = attrs.field(default=None, kw_only=True)
    """None if their order is not requested."""

    def select(self, rows: Integers, *, stacks: bool = False) -> OrderKeys:
        columns = [self.origin, self.epoch, self.offset, self.arrival, self.publisher]
        columns += [self.sequence, self.timestamp]
        places = None
        if stacks and self.stacks is not None:
            places = StackPlaces(*(column[rows] for column in self.stacks))
        return OrderKeys(*(column[rows] for column in columns), stacks=places)


@attrs.frozen(eq=False)
class EventOrder:
    rows: Integers
    contradictions: int
    """Events that had to break (b) or (c)."""


@attrs.frozen(eq=False)
class _Chains:
    """One of the three orders, for rows numbered by arrival."""

    chain: Integers
    """The chain of each row, named by the chain's first rank."""
    rank: Integers
    """Consecutive within a chain, unique among all chains."""
    first: Integers
    """The first row with each rank."""
    reach: Integers
    """The last row that must come before each row."""


def order_events(keys: OrderKeys) -> EventOrder:
    by_arrival = np.lexsort((keys.offset, keys.epoch, keys.origin, keys.arrival))
    orders = [
        _build_chains(by_arrival, keys.origin, keys.epoch, keys.offset),
        _build_chains(by_arrival, keys.publisher, keys.sequence, keys.timestamp),
    ]
    if keys.stacks is not None:
        stack, *columns = keys.stacks
        alone = stack < 0
        # A row without a stack is its own chain.
        stack = np.where(alone, -1 - np.arange(len(alone)), stack)
        values = [np.where(alone, 0, each) for each in columns]
        orders.append(_build_chains(by_arrival, stack, *values))
    places = np.arange(len(by_arrival))
    contradictions = 0
    for start, end in _find_unordered_stretches(orders):
        places[start:end], broken = _StretchMerge(orders, start, end).run()
        contradictions += broken
    return EventOrder(by_arrival[places], contradictions)


def mark_first_of_each(*columns: Integers) -> NDArray[np.bool_]:
    size = len(columns[0])
    order = np.lexsort(columns)
    is_first = np.ones(size, dtype=np.bool_)
    # lexsort is stable, so the first of equal rows comes first.
    is_first[order[1:]] = _mark_changes(order, columns)[1:]
    return is_first


def _mark_changes(order: Integers, columns: Sequence[Integers]) -> NDArray[np.bool_]:
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
    # The running maximum of each chain: its floor is above all earlier chains.
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
    """Return disjoint (start, end) of rows that arrival leaves unordered."""
    reach = np.maximum.reduce([each.reach for each in orders])
    late = np.flatnonzero(reach > np.arange(len(reach)))
    if not len(late):
        return []
    ends = np.maximum.accumulate(reach[late]) + 1
    apart = np.flatnonzero(late[1:] >= ends[:-1])
    starts = late[np.concatenate(([0], apart + 1))]
    return list(zip(starts.tolist(), ends[np.append(apart, len(late) - 1)].tolist(), strict=True))


class _StretchMerge:
    """Merge of one stretch, with a queue for each origin."""

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
        # (chain, rank) of each row in each order; queues keep that of origins.
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
        """Return the lowest rank behind the stretch's start, by order and chain."""
        first: dict[tuple[int, int], int] = {}
        for number, each in enumerate(orders):
            chains, ranks = each.chain[start:end], each.rank[start:end]
            is_open = each.first[ranks] >= start
            for chain, rank in zip(chains[is_open].tolist(), ranks[is_open].tolist(), strict=True):
                key = (number, chain)
                first[key] = min(first.get(key, rank), rank)
        return first

    def run(self) -> tuple[Integers, int]:
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
        """Make a row ready, or let it wait for a chain."""
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
