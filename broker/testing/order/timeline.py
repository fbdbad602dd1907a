"""Statuses of a run as intervals of time."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from itertools import combinations
from typing import TypeAlias

from broker.testing.order.run import Process, Run
from broker.transport.view import LinkState

#: Begin and end; the end does not belong to it.
Interval: TypeAlias = tuple[float, float]
Pair: TypeAlias = tuple[str, str]

FOREVER = float("inf")


class Intervals:
    """Disjoint intervals in order."""

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self.all = [each for each in intervals if each[0] < each[1]]
        self._begins = [begin for begin, _ in self.all]

    def covers(self, begin: float, end: float) -> bool:
        index = bisect_right(self._begins, begin) - 1
        return index >= 0 and end < self.all[index][1]

    def touches(self, begin: float, end: float) -> bool:
        return any(one <= end and begin < other for one, other in self.all)

    def __and__(self, other: Intervals) -> Intervals:
        return Intervals(
            (max(one[0], two[0]), min(one[1], two[1])) for one in self.all for two in other.all
        )


class Timeline:
    """Intervals of processes, and of statuses that sites report of each other."""

    def __init__(self, run: Run) -> None:
        self.lives = _lives(run)
        self.states = _states(run, self.lives)
        alive: dict[str, list[Interval]] = defaultdict(list)
        for (site, _), life in self.lives.items():
            alive[site].append(life)
        self.alive = {site: Intervals(sorted(alive[site])) for site in run.sites}
        nothing = Intervals()
        self.connected = {
            (one, other): self.states.get((one, other, LinkState.CONNECTED), nothing)
            for one in run.sites
            for other in run.sites
            if one != other
        }
        self._mutual: dict[Pair, Intervals] = {}
        for one, other in combinations(run.sites, 2):
            both = self.connected[one, other] & self.connected[other, one]
            self._mutual[one, other] = self._mutual[other, one] = both
        self._run = run
        self._settled: dict[str, Intervals] | None = None

    def are_connected(self, one: str, other: str, begin: float, end: float) -> bool:
        """Return True if both sites report each other as connected all the time."""
        return (self.alive[one] if one == other else self._mutual[one, other]).covers(begin, end)

    def is_transitive(self, site: str, begin: float, end: float) -> bool:
        """Return True if all the time the sites that a site is joined with are all connected."""
        if self._settled is None:
            self._settled = self._find_settled()
        return self._settled[site].covers(begin, end)

    def process_at(self, site: str, time: float) -> Process | None:
        for process, (begin, end) in self.lives.items():
            if process[0] == site and begin <= time < end:
                return process
        return None

    def _find_settled(self) -> dict[str, Intervals]:
        sites = self._run.sites
        ends = {time for each in self.connected.values() for pair in each.all for time in pair}
        times = sorted({0.0, *ends} - {FOREVER})
        found: dict[str, list[Interval]] = {site: [] for site in sites}
        for begin, end in zip(times, [*times[1:], FOREVER], strict=True):
            edges = {pair for pair, each in self.connected.items() if each.covers(begin, begin)}
            for site in sites:
                joined, grown = {site}, set[str]()
                while grown != joined:
                    grown = set(joined)
                    joined |= {b for a, b in edges if a in grown} | {
                        a for a, b in edges if b in grown
                    }
                if all((a, b) in edges for a in joined for b in joined if a != b):
                    found[site].append((begin, end))
        return {site: Intervals(_merge(each)) for site, each in found.items()}


def _merge(intervals: list[Interval]) -> list[Interval]:
    merged: list[Interval] = []
    for begin, end in intervals:
        if merged and merged[-1][1] == begin:
            merged[-1] = (merged[-1][0], end)
        else:
            merged.append((begin, end))
    return merged


def _lives(run: Run) -> dict[Process, Interval]:
    lives: dict[Process, Interval] = {}
    for time, process, is_start in run.lives:
        lives[process] = (time, FOREVER) if is_start else (lives[process][0], time)
    return lives


def _states(
    run: Run, lives: dict[Process, Interval]
) -> dict[tuple[str, str, LinkState], Intervals]:
    changes: dict[tuple[Process, str], list[tuple[float, LinkState]]] = {
        (process, peer): [(begin, LinkState.DISCONNECTED)]
        for process, (begin, _) in lives.items()
        for peer in run.sites
        if peer != process[0]
    }
    for status in run.statuses:
        changes[status.process, status.peer].append((status.time, status.state))
    found: dict[tuple[str, str, LinkState], list[Interval]] = defaultdict(list)
    for (process, peer), states in changes.items():
        ends = [time for time, _ in states[1:]] + [lives[process][1]]
        for (begin, state), end in zip(states, ends, strict=True):
            found[process[0], peer, state].append((begin, end))
    return {key: Intervals(sorted(each)) for key, each in found.items()}
