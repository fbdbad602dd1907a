"""Archive whose forged events are dropped: their places are missing ranges."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

import attrs
from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess, Replay, Replays
from broker.replay.request import ReplayRequest

#: Returns the forged ones among the events of a flow; the last argument is their sender.
FindForged: TypeAlias = Callable[[str, Sequence[LoggedEvent], str], Sequence[LoggedEvent]]
#: Of one replay; further forged events are dropped without one.
MOST_MISSING = 1_024
_origin = attrgetter("origin")


def with_checks(archive: ArchiveAccess, find_forged: FindForged) -> ArchiveAccess:
    return attrs.evolve(archive, replays=_CheckedReplays(archive.replays, find_forged))


class _CheckedReplays:
    def __init__(self, replays: Replays, find_forged: FindForged) -> None:
        self._replays = replays
        self._find_forged = find_forged

    def start_replay(self, request: ReplayRequest) -> Replay:
        return _CheckedReplay(self._replays.start_replay(request), self._find_forged)


class _CheckedReplay:
    """Implements `broker.recovery.archive_access.Replay`."""

    def __init__(self, replay: Replay, find_forged: FindForged) -> None:
        self._replay = replay
        self._find_forged = find_forged
        self._missing: list[tuple[str, Mark, Mark]] = []

    @property
    def scanned_rows(self) -> tuple[int, int]:
        return self._replay.scanned_rows

    def next_events(self) -> Deferred[Sequence[LoggedEvent]]:
        return Deferred.fromCoroutine(self._next_events())

    async def _next_events(self) -> Sequence[LoggedEvent]:
        while events := await self._replay.next_events():
            if accepted := list(self._select(events)):
                return accepted
        return events

    def _select(self, events: Sequence[LoggedEvent]) -> Iterator[LoggedEvent]:
        for origin, run in groupby(events, key=_origin):
            found = list(run)
            forged = self._find_forged(origin, found, "the archive")
            for event in found:
                if event not in forged:
                    yield event
                elif len(self._missing) < MOST_MISSING:
                    before = (event.epoch, event.offset - 1)
                    self._missing.append((origin, before, event.mark))

    def end_marks(self) -> Mapping[str, Mark]:
        return self._replay.end_marks()

    def missing_ranges(self) -> Sequence[tuple[str, Mark, Mark]]:
        return [*self._replay.missing_ranges(), *self._missing]

    def cancel(self) -> None:
        self._replay.cancel()
