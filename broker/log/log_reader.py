"""What can be read of an event log, without a change to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from broker.event.place import Mark
from broker.log.archive_hold import ArchiveHold
from broker.log.commit import Bounds
from broker.log.damage import DamageFound
from broker.log.history import HistoryChain
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.repair import Repairs
from broker.log.replica_table import ReplicaSpan
from broker.log.worker import Worker

#: A page of `scrub`.
SCRUB_EVENTS = 512
SCRUB_BYTES = 512 << 10


class LogReader:
    """The reading half of `EventLog`.

    A page ends before damage. Where it would begin with damage the log is repaired first, and the
    page follows; damage that was given up fails with `DamageFound`. A caller that does not `wait`
    gets `DamageFound` at once, while the repair goes on.
    """

    def __init__(self, file: LogFile, read: Worker, repairs: Repairs) -> None:
        """`read` is a thread of its own."""
        self._file = file
        self._read = read
        self.repairs = repairs
        self._bounds = file.bounds

    @property
    def origin(self) -> str:
        """The name under which this log's places are known."""
        return self._file.origin

    @property
    def archive_hold(self) -> ArchiveHold:
        """What retention leaves, as the archive lacks it."""
        return self._file.archive_hold

    @property
    def bounds(self) -> Bounds:
        """What is durable, as far as those who appended it have been told.

        The file may be further on for a moment. If readers saw that, they would get events twice:
        from the log, and with the commit that is yet to be told.
        """
        return self._bounds

    @property
    def begins_after(self) -> Mapping[str, Mark]:
        """Of origins of which the log has not all that was wanted: behind which mark it begins."""
        return self._file.begins_after

    @property
    def history_chain(self) -> HistoryChain:
        """The histories of this log, and what it has lost."""
        return self._file.history_chain

    def read(
        self, start: int, max_events: int, max_bytes: int, *, wait: bool = True
    ) -> Deferred[list[LoggedEvent]]:
        """Durable events from the serial `start` on, within `bounds`: see `LogFile.read`."""
        page = self._read_page(wait, self._file.read, start, max_events, max_bytes)
        return page.addCallback(self._within_bounds)

    def read_origin(
        self, origin: str, after: Mark, max_events: int, max_bytes: int, *, wait: bool = True
    ) -> Deferred[list[LoggedEvent]]:
        """Durable events of one origin behind `after`, within `bounds`: see `LogFile.read_of`."""
        page = self._read_page(wait, self._file.read_origin, origin, after, max_events, max_bytes)
        return page.addCallback(self._within_bounds)

    async def read_past_damage(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """The same as `read_of`, without events that were given up."""
        while True:
            try:
                return await self.read_origin(origin, after, max_events, max_bytes)
            except DamageFound as found:
                if not self.repairs.is_given_up(found.damage) or found.damage.upto <= after:
                    raise
                after = found.damage.upto

    def read_replica(
        self, origin: str, after: Mark, max_events: int, max_bytes: int, *, wait: bool = True
    ) -> Deferred[list[LoggedEvent]]:
        """The same of those that are kept for their origin (see `store.kept`)."""
        return self._read_page(wait, self._file.read_replica, origin, after, max_events, max_bytes)

    def _read_page(self, wait: bool, read: Callable[..., Any], *args: Any) -> Deferred[Any]:
        def damaged(failure: Failure) -> Any:
            error = failure.value
            if not isinstance(error, DamageFound):
                return failure
            damage = error.damage
            if self.repairs.is_given_up(damage):
                return failure
            repair = self.repairs.begin_repair(damage)
            if not wait:
                repair.addErrback(lambda _: None)
                return failure
            return repair.addCallback(lambda _: self._read_page(wait, read, *args))

        return self._read(read, *args).addErrback(damaged)

    @property
    def replica_spans(self) -> Mapping[str, ReplicaSpan]:
        """What is kept for other origins."""
        return self._file.replica_spans

    def first_after(self, origin: str, mark: Mark) -> int:
        """The serial of the first durable event of an origin behind `mark`, or the next serial."""
        return self._file.first_after(origin, mark)

    def arrival_at(self, serial: int) -> int:
        """When (ms since 1970) the event at `serial`, or the next one, was logged; else 0."""
        return self._file.arrival_at(serial)

    def position_before(self, serial: int) -> dict[str, Mark]:
        """For each origin the place of its last durable event before `serial`."""
        return self._file.position_before(serial)

    def durables(self) -> list[tuple[bytes, bytes]]:
        """All stored durable subscriptions, as they were when the log was opened."""
        return self._file.durables()

    def damaged_durables(self) -> list[bytes]:
        """The keys of those that are lost to damage."""
        return self._file.damaged_durables()

    def newest_incarnation(self, client_id: str) -> bytes | None:
        """What was stored for a client with `put_client`."""
        return self._file.newest_incarnation(client_id)

    async def scrub(self) -> None:
        """Read everything once, so that damage is repaired while others have the events."""
        serial = self._bounds.first
        while serial <= self._bounds.last:
            try:
                events = await self.read(serial, SCRUB_EVENTS, SCRUB_BYTES, wait=False)
            except DamageFound as found:
                serial = found.damage.last + 1
            else:
                serial = events[-1].serial + 1 if events else self._bounds.last + 1
        for origin, span in list(self.replica_spans.items()):
            await self._scrub_replica(origin, span.after)

    async def _scrub_replica(self, origin: str, after: Mark) -> None:
        while True:
            try:
                events = await self.read_replica(
                    origin, after, SCRUB_EVENTS, SCRUB_BYTES, wait=False
                )
            except DamageFound as found:
                after = found.damage.upto
            else:
                if not events:
                    return
                after = events[-1].mark

    def _within_bounds(self, events: list[LoggedEvent]) -> list[LoggedEvent]:
        last = self._bounds.last
        if events and events[-1].serial > last:
            return [event for event in events if event.serial <= last]
        return events
