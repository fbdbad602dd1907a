"""The part of a recovery that asks the archive."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice

from twisted.logger import Logger

from broker.archive.intervals import without
from broker.delivery.recovery import MarkRange, Missed
from broker.errors import (
    ArchiveUnavailable,
    Closed,
    EngineUnavailable,
    NotConnected,
    Overloaded,
)
from broker.event.place import Mark
from broker.log.records import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess, Replay
from broker.recovery.context import LOOK_AGAIN, Surroundings
from broker.recovery.log_source import RUN
from broker.recovery.planner import Remaining, holes
from broker.recovery.unarchived_events import MissingEvents
from broker.replay.engine.contract import Hole
from broker.replay.request import ReplayRequest

#: How often a replay is begun whose process ends.
ATTEMPTS = 3
#: Seconds between two attempts where the archive has no room for a request, or can not be read.
LONGEST_PAUSE = 8.0
#: Most events that `last` may ask for: they are held until the end is known.
MOST_LAST = 100_000
#: Bytes of events of a replay that are held, so that what it lacks comes in every order.
MOST_HELD = 32 << 20


class FromArchive:
    """A replay of what is left, once the archive has it. What was looked at is noted in `left`."""

    log = Logger()

    def __init__(
        self, missed: Missed, around: Surroundings, archive: ArchiveAccess, left: Remaining
    ) -> None:
        self._missed = missed
        self._around = around
        self._archive = archive
        self._left = left
        # An event may stand at a place that its client has passed, too: it is not given again.
        self._had: dict[str, MarkRange] = {o: (mark, mark) for o, mark in missed.position.items()}
        if missed.others:
            # The archive must be told what is not wanted any more of an origin.
            self._had |= {
                o: (upto, upto) for o, (_, upto) in missed.ranges.items() if upto is not None
            }
        self._replay: Replay | None = None
        self._cancelled = False
        self._missing: MissingEvents | None = None
        """Of the newest replay, what the archive lacked before what it has."""
        self._passed: list[Hole] = []
        """The same of replays before, as far as they came."""
        self._has_healed = False
        """Whether what is damaged had its time to be written again."""
        self._may_heal: frozenset[str] = frozenset()
        """Origins of which something was found to be missing a moment ago."""
        self._until = 0.0
        """When nodes that can not be reached are waited for no more."""
        self.beyond: dict[str, Mark] = {}
        """By origin how far the archive went, where what is known here is no end."""
        self.unnamed: Mapping[str, Mark] = {}
        """The same of origins that the ranges do not name."""

    @property
    def holes(self) -> Sequence[Hole]:
        """Ranges of origins that were never archived, or are damaged, before ranges that are
        archived; without the events that logs have."""
        return [*self._passed, *([] if self._missing is None else self._missing.holes)]

    @property
    def looked_at(self) -> tuple[int, int]:
        """Events, and of how many: both 0 while no replay is under way."""
        return (0, 0) if self._replay is None else self._replay.looked_at

    def cancel(self) -> None:
        """Nobody wants the rest."""
        self._cancelled = True
        if self._replay is not None:
            self._replay.cancel()

    async def events(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        """What it has of what is left. Fails where it can not be searched, or finds too much."""
        self._until = self._around.clock.seconds() + self._around.patience
        await self._await_archive()
        if not (self._left.ranges or self._missed.others):
            return
        ended, until, pause = 0, math.inf, LOOK_AGAIN
        while not self._cancelled:
            given = False
            try:
                async for events in self._replayed():
                    given = True
                    yield events
                return
            except (NotConnected, Closed) as error:
                # The process that replays has ended; it is started again for what is left.
                ended += 1
                if ended == ATTEMPTS or (given and self._missed.last):
                    raise
                self.log.warn("replaying begins again: {error}", error=error)
            except (Overloaded, ArchiveUnavailable, EngineUnavailable) as error:
                # Others go first, or a disk is full or away for a moment: it is still there.
                now = self._around.clock.seconds()
                if given or until == math.inf:
                    until, pause = now + self._around.patience, LOOK_AGAIN
                if now >= until or (given and self._missed.last):
                    raise
                self.log.info("replaying waits: {error}", error=error)
                await self._around.after(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _begin(self) -> Replay:
        missed, left = self._missed, self._left.ranges
        wanted = self._wanted_of_archive()
        ends = {origin: upto or missed.known.get(origin) for origin, (_, upto) in left.items()}
        self._replay = self._archive.replays.replay(
            ReplayRequest(
                pattern=missed.pattern.text,
                query=missed.query.text,
                namespaces=dict(missed.query.namespaces),
                clearance=missed.clearance,
                ranges=wanted,
                others=missed.others,
                from_ms=missed.from_ms,
                until_ms=missed.until_ms,
                last=min(missed.last, MOST_LAST),
                known={o: end for o, end in ends.items() if end and wanted[o][1] is None},
            )
        )
        return self._replay

    async def _replayed(self) -> AsyncIterator[Sequence[LoggedEvent]]:
        try:
            replay = self._begin()
            events = await replay.more()
            if replay.holes() and not self._has_healed:
                # Whoever has it still writes it again now. Later it could not come in its order.
                self._has_healed = True
                if await self._await_healing(replay.holes()):
                    replay.cancel()
                    replay = self._begin()
                    events = await replay.more()
            missing = await self._read_missing(replay.holes())
            async for found in self._with_missing(replay, events, missing):
                yield found
                reached = _marks(found)
                self._note(reached)
                unknown = reached.keys() - self._missed.ranges.keys()
                self._had |= {origin: (reached[origin], None) for origin in unknown}
                self._left.reached(reached)
        finally:
            self._replay = None
        self._note(replay.reached())
        self.unnamed = {
            origin: mark
            for origin, mark in replay.reached().items()
            if origin not in self._missed.ranges
        }
        self._left.reached(replay.reached())
        self._left.close()

    @staticmethod
    async def _with_missing(
        replay: Replay, events: Sequence[LoggedEvent], missing: MissingEvents
    ) -> AsyncIterator[Sequence[LoggedEvent]]:
        """What a replay has, beginning with `events`, and what logs have that it lacks."""
        held: list[LoggedEvent] = []
        size = 0
        while events and not missing.is_empty and size < MOST_HELD:
            held += events
            size += sum(event.size for event in events)
            events = await replay.more()
        if not events:
            whole = missing.merge_all(held)
            while run := list(islice(whole, RUN)):
                yield run
            return
        for some in (held, events):
            yield missing.merge(some)
        while events := await replay.more():
            yield missing.merge(events)
        yield missing.rest()

    async def _read_missing(self, holes: Sequence[Hole]) -> MissingEvents:
        """Read from logs what the archive lacks. What they lack, too, is noted at once: this replay
        may break off behind it."""
        missing = MissingEvents(self._missed, self._around)
        await missing.gather(holes, self._may_heal, self._until)
        # Behind that, this replay says itself what is missing: it may have been written again.
        wanted = self._wanted_of_archive()
        begins = {origin: after for origin, (after, upto) in wanted.items() if after != upto}
        self._passed = [
            (origin, after, end)
            for origin, after, upto in self.holes
            if after < (end := min(upto, begins.get(origin, upto)))
        ]
        self._missing = missing
        return missing

    def _wanted_of_archive(self) -> dict[str, MarkRange]:
        """What is left. An origin may have died with more than is known here, and the archive
        have it: where that is wanted, too, its range has no end."""
        wanted = self._left.ranges
        if self._missed.open_ended:
            wanted = {
                origin: (max(after, self.beyond.get(origin, after)), self._end(origin, upto))
                for origin, (after, upto) in wanted.items()
            }
            for origin, mark in self.beyond.items():
                wanted.setdefault(origin, (mark, None))
        return {**self._had, **wanted}

    def _end(self, origin: str, upto: Mark | None) -> Mark | None:
        return upto if origin == self._around.origin else None

    def _note(self, reached: Mapping[str, Mark]) -> None:
        """What came of the archive of origins that had an end, where that may be passed."""
        if not self._missed.open_ended:
            return
        for origin, mark in reached.items():
            known = self._missed.ranges.get(origin)
            if known is not None and self._end(origin, known[1]) is None and known[1] is not None:
                self.beyond[origin] = max(mark, self.beyond.get(origin, mark))

    async def _await_archive(self) -> None:
        """Wait until the newest events are in the archive, and what was damaged a moment ago is
        again, as long as their origins may take."""
        archive, around = self._archive, self._around
        until = around.clock.seconds() + archive.patience
        archive.flush_soon()
        while not self._cancelled:
            left = self._left.ranges
            told = await archive.covered({origin: after for origin, (after, _) in left.items()})
            covered = told.intervals
            lacking = [
                origin
                for origin, (after, upto) in left.items()
                if origin in told.lost_ends or holes(after, upto, covered.get(origin, ()))
            ]
            are_there = all(
                upto is None
                or max((end for _, end in covered.get(origin, ())), default=after) >= upto
                for origin, (after, upto) in left.items()
            )
            is_healing = not told.healing.isdisjoint(lacking)
            self._may_heal = told.healing | (left.keys() - covered.keys())
            if (are_there and not is_healing) or around.clock.seconds() >= until:
                empty = [o for o, intervals in covered.items() if not intervals]
                self._left.end(o for o in empty if o not in told.lost_ends)
                self._has_healed = is_healing
                return
            await around.after(LOOK_AGAIN)

    async def _await_healing(self, damaged: Sequence[Hole]) -> bool:
        """Wait as long for what a replay found to be damaged; whether some of it is there now."""
        archive, around = self._archive, self._around
        until = around.clock.seconds() + archive.patience
        archive.flush_soon()
        while not self._cancelled:
            told = await archive.covered({origin: after for origin, after, _ in damaged})
            left = [
                origin
                for origin, after, upto in damaged
                if without([(after, upto)], told.intervals.get(origin, ()))
            ]
            # Where the archiver can not tell at the moment it may be archiving.
            self._may_heal = frozenset(
                origin
                for origin, _, _ in damaged
                if origin in told.healing or origin not in told.intervals or origin not in left
            )
            if not self._may_heal.isdisjoint(left) and around.clock.seconds() < until:
                await around.after(LOOK_AGAIN)
            else:
                return len(left) < len(damaged)
        return False


def _marks(events: Sequence[LoggedEvent]) -> dict[str, Mark]:
    return {event.origin: event.mark for event in events}
