"""Repairs of the log with events of other sources.

A reader that finds damage begins a repair, or joins the running one. Damage that remains is given
up for `RETRY_AFTER` seconds: readers skip it and report a gap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.event.place import Mark
from broker.log.damage import Damage
from broker.log.logged_event import LoggedEvent
from broker.log.worker import Worker
from broker.transport.clock import IClock

#: Seconds until given-up damage is repaired again.
RETRY_AFTER = 600.0
OUTCOMES = ("found", "repaired", "given_up", "failed")

#: Fails with a `BrokerError` if a source that may have the events could not be asked.
FindEvents: TypeAlias = Callable[[Damage], "Deferred[Sequence[LoggedEvent]]"]


class RepairableFile(Protocol):
    def repair(self, damage: Damage, events: Sequence[LoggedEvent]) -> Damage | None: ...


def find_no_events(_: Damage) -> Deferred[Sequence[LoggedEvent]]:
    return succeed([])


class Repairs:
    log = Logger()

    def __init__(self, file: RepairableFile, write: Worker, clock: IClock) -> None:
        """`write` is the thread that writes the file."""
        self._file = file
        self._write = write
        self._clock = clock
        self.find_events: FindEvents = find_no_events
        self._waiting: dict[tuple[str, bytes], list[Deferred[None]]] = {}
        self._given_up: dict[tuple[str, bytes], list[tuple[Damage, float]]] = {}
        self.counts: Counter[str] = Counter()
        """Counts since the start, by outcome."""

    @property
    def given_up(self) -> list[Damage]:
        return [damage for damages in self._given_up.values() for damage, _ in damages]

    def is_given_up(self, damage: Damage) -> bool:
        """Return True if readers must skip the damage."""
        now = self._clock.seconds()
        damages = self._given_up.get((damage.table, damage.key), ())
        return any(each.covers(damage) and now < until for each, until in damages)

    def end_of_loss(self, table: str, origin: str, mark: Mark) -> Mark | None:
        """Return the end of given-up damage around a place, or None."""
        ends = [
            span.upto
            for damage in self.given_up
            if damage.table == table and self.is_given_up(damage)
            for span in damage.spans
            if span.origin == origin and span.after[1] <= mark[1] < span.upto[1]
        ]
        return max(ends, default=None)

    def begin_repair(self, damage: Damage) -> Deferred[None]:
        """Fires when the damage is repaired or given up; fails as `FindEvents`."""
        waiter: Deferred[None] = Deferred()
        key = (damage.table, damage.key)
        if key in self._waiting:
            self._waiting[key].append(waiter)
            return waiter
        self._waiting[key] = [waiter]
        self.counts["found"] += 1
        self.log.error(
            "the event log has {damage}; other sources are asked for the events", damage=damage
        )
        repair = Deferred.fromCoroutine(self._repair(damage))
        repair.addErrback(self._failed, damage).addBoth(self._settle, key)
        return waiter

    async def _repair(self, damage: Damage) -> None:
        events = await self.find_events(damage)
        left = await self._write(self._file.repair, damage, events)
        key = (damage.table, damage.key)
        now = self._clock.seconds()
        known = [each for each in self._given_up.pop(key, []) if now < each[1]]
        if left is None:
            self.counts["repaired"] += 1
            self.log.info("the event log was repaired: {damage}", damage=damage)
        else:
            self.counts["given_up"] += 1
            self.log.error("no source has the damaged events of the event log: {left}", left=left)
            known.append((left, now + RETRY_AFTER))
        if known:
            self._given_up[key] = known

    def _failed(self, failure: Failure, damage: Damage) -> Failure:
        self.counts["failed"] += 1
        self.log.error(
            "the event log can not be repaired now: {damage}: {error}",
            damage=damage,
            error=failure.value,
        )
        return failure

    def _settle(self, result: Failure | None, key: tuple[str, bytes]) -> None:
        for waiter in self._waiting.pop(key):
            if isinstance(result, Failure):
                waiter.errback(result)
            else:
                waiter.callback(None)
