"""What can be read of an event log, without a change to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.store.commit import Bounds
from broker.store.histories import Chain
from broker.store.kept import KeptSpan
from broker.store.log_file import LogFile
from broker.store.records import LoggedEvent
from broker.store.unarchived import UnarchivedHold


class Worker(Protocol):
    """Runs a call on another thread, one at a time and in order; the result comes as a Deferred."""

    def __call__(self, call: Callable[..., Any], /, *args: Any) -> Deferred[Any]: ...


class LogReading:
    """The reading half of `EventLog`."""

    def __init__(self, file: LogFile, read: Worker) -> None:
        """`read` is a thread of its own."""
        self._file = file
        self._read = read
        self._bounds = file.bounds

    @property
    def origin(self) -> str:
        """The name under which this log's places are known."""
        return self._file.origin

    @property
    def hold(self) -> UnarchivedHold:
        """What retention leaves, as the archive lacks it."""
        return self._file.hold

    @property
    def bounds(self) -> Bounds:
        """What is durable, as far as those who appended it have been told.

        The file may be further on for a moment. If readers saw that, they would get events twice:
        from the log, and with the commit that is yet to be told.
        """
        return self._bounds

    @property
    def since(self) -> Mapping[str, Mark]:
        """Of origins of which the log has not all that was wanted: behind which mark it begins."""
        return self._file.since

    @property
    def chain(self) -> Chain:
        """The histories of this log, and what it has lost."""
        return self._file.chain

    def read(self, start: int, max_events: int, max_bytes: int) -> Deferred[list[LoggedEvent]]:
        """Durable events from the serial `start` on, within `bounds`: see `LogFile.read`."""
        page = self._read(self._file.read, start, max_events, max_bytes)
        return page.addCallback(self._within_bounds)

    def read_of(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> Deferred[list[LoggedEvent]]:
        """Durable events of one origin behind `after`, within `bounds`: see `LogFile.read_of`."""
        page = self._read(self._file.read_of, origin, after, max_events, max_bytes)
        return page.addCallback(self._within_bounds)

    def read_kept(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> Deferred[list[LoggedEvent]]:
        """The same of those that are kept for their origin (see `store.kept`)."""
        return self._read(self._file.read_kept, origin, after, max_events, max_bytes)

    @property
    def kept(self) -> Mapping[str, KeptSpan]:
        """What is kept for other origins."""
        return self._file.kept

    def first_after(self, origin: str, mark: Mark) -> int:
        """The serial of the first durable event of an origin behind `mark`, or the next serial."""
        return self._file.first_after(origin, mark)

    def arrival_of(self, serial: int) -> int:
        """When (ms since 1970) the event at `serial`, or the next one, was logged; else 0."""
        return self._file.arrival_of(serial)

    def position_before(self, serial: int) -> dict[str, Mark]:
        """For each origin the place of its last durable event before `serial`."""
        return self._file.position_before(serial)

    def durables(self) -> list[tuple[bytes, bytes]]:
        """All stored durable subscriptions, as they were when the log was opened."""
        return self._file.durables()

    def newest_incarnation(self, client_id: str) -> bytes | None:
        """What was stored for a client with `put_client`."""
        return self._file.newest_incarnation(client_id)

    def _within_bounds(self, events: list[LoggedEvent]) -> list[LoggedEvent]:
        last = self._bounds.last
        if events and events[-1].serial > last:
            return [event for event in events if event.serial <= last]
        return events
