"""What a node sends of one origin, and how far each destination has been sent it.

For its own events that is a node as their origin; for those of others it is the node by which they
enter a unit. What is remembered is soft: who finds that something is missing asks the origin, and
where the sender does not know what it has sent, it begins anew and says so by `after`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import groupby
from typing import TypeAlias

import attrs

from broker.cluster.address import Address
from broker.cluster.flows.frame import MAX_HOPS, PLAIN, Carried, Frame, Range, mark_runs
from broker.event.place import Mark

#: Whether events of a security level's rank may go to a destination, on the way that there is.
Cleared: TypeAlias = Callable[[Address, int], bool]


@attrs.frozen(slots=True)
class Departing:
    """An event that is to be sent, and to whom."""

    carried: Carried
    level: int
    """Rank of its security level."""
    destinations: Collection[Address]


class Departures:
    """The state of one origin's events on their way from here."""

    def __init__(self, origin: str, home: Address, upto: Mark) -> None:
        """`home` is the node whose log the origin is; `upto` the newest place that it has given."""
        self.origin = origin
        self._home = home
        self._upto = upto
        self._sent: dict[Address, Mark] = {}
        self._behind: set[Address] = set()
        self._joined: dict[Address, Mark] = {}
        """Up to where events may have been matched without a destination that was new."""
        self.denied = 0
        """Events that a destination wanted, and to which no way is cleared for them."""

    @property
    def destinations(self) -> Collection[Address]:
        """Who is sent something."""
        return self._sent.keys()

    def serve(self, destinations: Iterable[Address], newest: Mark) -> None:
        """These are all that there are. New ones are sent what comes behind `newest`, the newest
        event that was matched already."""
        wanted = set(destinations)
        for each in self._sent.keys() - wanted:
            del self._sent[each]
            self._behind.discard(each)
            self._joined.pop(each, None)
        for each in wanted - self._sent.keys():
            self._sent[each] = self._joined[each] = newest

    def fall_behind(self, destination: Address) -> None:
        """It reads from the log: what comes is not sent to it until it has caught up."""
        if destination in self._sent:
            self._behind.add(destination)

    def catch_up(self, destination: Address, upto: Mark) -> bool:
        """It has read everything up to `upto`. Whether that is all: then it goes on from there."""
        if upto < max(self._upto, self._joined.get(destination, upto)):
            return False
        if destination in self._behind:
            self._behind.discard(destination)
            self._sent[destination] = self._upto
        return True

    def give_up(self, destination: Address) -> None:
        """It does not read any more: it goes on from here, and finds that something is missing."""
        if destination in self._behind:
            self._behind.discard(destination)
            self._sent[destination] = self._upto

    def depart(
        self,
        after: Mark,
        upto: Mark,
        events: Sequence[Departing],
        cleared: Cleared,
        acknowledge: Collection[Address] = (),
    ) -> Frame | None:
        """The events of (after, upto] for whom they are; None if they are for nobody.

        Where `after` is not where the last ones ended, something was missed on the way here.
        """
        if after != self._upto:
            self._sent = dict.fromkeys(self._sent, after)
        self._upto = upto
        carried: list[Carried] = []
        destinations: list[frozenset[Address]] = []
        rank = 0
        for event in events:
            whom = self._whom(event, cleared)
            if whom:
                carried.append(event.carried)
                destinations.append(whom)
                rank = max(rank, event.level)
        if not carried:
            return None
        order = sorted(frozenset().union(*destinations))
        index = {destination: i for i, destination in enumerate(order)}
        ranges = []
        for each in order:
            ranges.append(Range(each, self._sent[each], upto, None, each in acknowledge))
            self._sent[each] = upto
        runs = [
            (len(list(group)), tuple(sorted(index[each] for each in whom)))
            for whom, group in groupby(destinations)
        ]
        return self.frame(ranges, carried, runs, rank)

    def progress(self) -> Frame | None:
        """What there is to tell those who were sent nothing lately; None if they all know."""
        ranges = []
        for each, sent in sorted(self._sent.items()):
            if sent < self._upto and each not in self._behind:
                ranges.append(Range(each, sent, self._upto))
                self._sent[each] = self._upto
        return self.frame(ranges, [], [], 0) if ranges else None

    def frame(
        self,
        ranges: Sequence[Range],
        carried: Sequence[Carried],
        runs: Sequence[tuple[int, tuple[int, ...]]],
        rank: int,
    ) -> Frame:
        """A frame of this origin."""
        return Frame(
            origin=self.origin,
            home=self._home,
            rank=rank,
            hops=MAX_HOPS,
            ranges=ranges,
            mark_runs=mark_runs([each.mark for each in carried]),
            runs=runs,
            encoding=PLAIN,
            record_lengths=[len(each.record) for each in carried],
            document_lengths=[len(each.document) for each in carried],
            records=b"".join([each.record for each in carried]),
            body=b"".join([each.document for each in carried]),
        )

    def _whom(self, event: Departing, cleared: Cleared) -> frozenset[Address]:
        whom = set()
        for each in event.destinations:
            if each not in self._sent or each in self._behind:
                continue
            if cleared(each, event.level):
                whom.add(each)
            else:
                self.denied += 1
        return frozenset(whom)
