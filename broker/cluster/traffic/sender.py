"""What a node sends of one origin, and how far each destination has been sent it.

For its own events that is a node as their origin; for those of others it is the node by which they
enter a unit. What is remembered is soft: who finds that something is missing asks the origin, and
where the sender does not know what it has sent, it begins anew and says so by `after`.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import (
    MAX_DESTINATIONS,
    MAX_HOPS,
    PLAIN,
    Carried,
    Frame,
    Range,
    level_runs,
    mark_runs,
)
from broker.event.place import Mark, NamedHistory

#: Whether events of a security level's rank may go to a destination, on the way that there is.
Cleared: TypeAlias = Callable[[Address, int], bool]

#: A destination that is sent nothing more is told where it has to stand once more after so many
#: calls of `progress`, and then each time after as many as the last: if frames were lost, it learns
#: so. The last time is later than it takes to notice that a silent link is down.
TELL_AGAIN = (1, 2, 4, 8, 16, 32, 64)
#: Who lacks at most so many places is sent new events while it reads those: it can hold them.
NEAR = 256
#: Of so many frames that came last it is remembered from which home they came.
RECENT = 8


@attrs.frozen(slots=True)
class Departing:
    """An event that is to be sent, and to whom."""

    carried: Carried
    level: int
    """Rank of its security level."""
    destinations: Collection[Address]


@attrs.define(slots=True, eq=False)
class _Way:
    """How far one destination has been sent the events."""

    sent: Mark
    joined: Mark
    """Up to here events may have been matched without it."""
    behind: bool = False
    """It reads from the log, and is sent nothing beside."""


class Departures:
    """The state of one origin's events on their way from here."""

    def __init__(self, origin: str, home: Address, upto: Mark) -> None:
        """`home` is the node whose log the origin is, or who answers for it; `upto` the newest
        place that it has given."""
        self.origin = origin
        self._homes = deque([home], maxlen=RECENT)
        self._turn = 0
        self._upto = upto
        self._ways: dict[Address, _Way] = {}
        self._restless: dict[Address, int] = {}
        """Whom to tell again, and how often `progress` was called since it was sent something."""
        # Not those of all origins at once: together they may be too much for a link.
        early = zlib.crc32(origin.encode())
        self._tell_at = [time - early % (1 + time // 4) for time in TELL_AGAIN]
        self._calls = early % TELL_AGAIN[-1]
        self._told = upto
        """Where `progress` was called last."""
        self.history: NamedHistory | None = None
        """In which history the home logs, as far as it is known."""
        self.denied = 0
        """Events that a destination wanted, and to which no way is cleared for them."""

    def spoke(self, home: Address) -> None:
        """A frame of the origin came from there: while its node is gone others answer for it, and
        one of them may have less than another."""
        self._homes.append(home)

    @property
    def destinations(self) -> Collection[Address]:
        """Who is sent something."""
        return self._ways.keys()

    @property
    def upto(self) -> Mark:
        """The newest place up to which events were sent."""
        return self._upto

    @property
    def restless(self) -> int:
        """How many are still told where they have to stand."""
        return len(self._restless)

    def serve(
        self, destinations: Iterable[Address], newest: Mark, anew: Collection[Address] = ()
    ) -> None:
        """These are all that there are. New ones, and those that are there `anew`, are sent what
        comes behind `newest`, the newest event that may have been matched without them."""
        wanted = set(destinations)
        for each in self._ways.keys() - wanted:
            del self._ways[each]
            self._restless.pop(each, None)
        for each in wanted:
            if each not in self._ways or each in anew:
                self._ways[each] = self._new(newest)
                self._restless[each] = 0

    def begin_again(self, destination: Address, newest: Mark) -> None:
        """Events up to `newest` may have been matched without what it wants, if it is there."""
        if destination in self._ways:
            self._ways[destination] = self._new(newest)
            self._restless[destination] = 0

    def read_from(self, destination: Address, after: Mark) -> None:
        """It reads what is behind `after` from the log: if that is much, then all that comes."""
        way = self._ways.get(destination)
        if way is not None:
            epoch, offset = self._upto
            way.behind = after[0] != epoch or after[1] + NEAR < offset
            if not way.behind:
                way.sent = max(self._upto, way.joined)
                self._restless[destination] = 0

    def reads(self, destination: Address) -> bool:
        """Whether it is sent nothing beside what it reads."""
        way = self._ways.get(destination)
        return way is not None and way.behind

    def go_on(self, destination: Address) -> None:
        """It has read all that there is, or reads no more: it is sent what comes from here on."""
        way = self._ways.get(destination)
        if way is not None and way.behind:
            way.behind = False
            way.sent = max(self._upto, way.joined)
            self._restless[destination] = 0

    def depart(
        self,
        after: Mark,
        upto: Mark,
        events: Sequence[Departing],
        cleared: Cleared,
    ) -> Frame | None:
        """The events of (after, upto] for whom they are; None if they are for nobody.

        Where `after` is not where the last ones ended, something was missed on the way here.
        """
        if upto < after:
            return None
        if after != self._upto:
            for address, way in self._ways.items():
                way.sent = max(after, way.joined)
                self._restless[address] = 0
        self._upto = upto
        carried: list[Carried] = []
        levels: list[int] = []
        destinations: list[frozenset[Address]] = []
        for event in events:
            whom = self._whom(event, cleared)
            if whom:
                carried.append(event.carried)
                levels.append(event.level)
                destinations.append(whom)
        if not carried:
            return None
        everybody = sorted(frozenset().union(*destinations))
        order = everybody[:MAX_DESTINATIONS]
        for each in everybody[MAX_DESTINATIONS:]:
            # They find a hole, and ask.
            self._ways[each].sent = upto
            self._restless[each] = 0
        index = {destination: i for i, destination in enumerate(order)}
        ranges = []
        for each in order:
            way = self._ways[each]
            ranges.append(self._range(each, way))
            way.sent = upto
            self._restless[each] = 0
        runs = [
            (len(list(group)), tuple(sorted(index[each] for each in whom if each in index)))
            for whom, group in groupby(destinations)
        ]
        return self.frame(ranges, carried, levels, runs)

    def progress(self) -> Frame | None:
        """What there is to tell those who were sent nothing lately; None if that is nothing."""
        if self._upto != self._told:
            self._told = self._upto
            for each, way in self._ways.items():
                if way.sent < self._upto:
                    self._restless[each] = 0
        ranges = []
        self._calls += 1
        if self._calls % TELL_AGAIN[-1] == 0:
            settled = sorted(self._ways.keys() - self._restless.keys())
            ways = [(each, self._ways[each]) for each in settled]
            ranges += [self._range(each, way) for each, way in ways if not way.behind]
        for each in sorted(self._restless):
            way = self._ways[each]
            if way.behind:
                continue
            times = self._restless[each] = self._restless[each] + 1
            if way.sent < self._upto or times in self._tell_at:
                ranges.append(self._range(each, way))
                way.sent = max(way.sent, self._upto)
            if times >= self._tell_at[-1]:
                del self._restless[each]
                way.joined = (0, 0)
        if not ranges:
            return None
        homes = sorted(set(self._homes))
        self._turn += 1
        home = homes[self._turn % len(homes)]
        return self.frame(ranges[:MAX_DESTINATIONS], [], [], [], home)

    def _range(self, destination: Address, way: _Way) -> Range:
        return Range(
            destination,
            way.sent,
            max(way.sent, self._upto),
            since=way.joined if (0, 0) < way.joined < way.sent else None,
        )

    def frame(
        self,
        ranges: Sequence[Range],
        carried: Sequence[Carried],
        levels: Sequence[int],
        runs: Sequence[tuple[int, tuple[int, ...]]],
        home: Address | None = None,
    ) -> Frame:
        """A frame of this origin; of the home that spoke last, if it does not matter of which."""
        return Frame(
            origin=self.origin,
            home=home or self._homes[-1],
            level_runs=level_runs(levels),
            hops=MAX_HOPS,
            ranges=ranges,
            mark_runs=mark_runs([each.mark for each in carried]),
            runs=runs,
            encoding=PLAIN,
            record_lengths=[len(each.record) for each in carried],
            document_lengths=[len(each.document) for each in carried],
            records=b"".join([each.record for each in carried]),
            body=b"".join([each.document for each in carried]),
            history=self.history,
        )

    def _new(self, newest: Mark) -> _Way:
        return _Way(max(newest, self._upto), newest)

    def _whom(self, event: Departing, cleared: Cleared) -> frozenset[Address]:
        whom = set()
        for each in event.destinations:
            way = self._ways.get(each)
            if way is None or way.behind or event.carried.mark <= way.sent:
                continue
            if cleared(each, event.level):
                whom.add(each)
            else:
                self.denied += 1
        return frozenset(whom)
