"""Reads of an event log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.event.place import Mark
from broker.log.archive_hold import ArchiveHold
from broker.log.commit import Bounds
from broker.log.damage import DamageFound
from broker.log.history import HistoryChain
from broker.log.known_flows import KnownFlows
from broker.log.log_file import LogFile
from broker.log.logged_event import LoggedEvent
from broker.log.repair import Repairs
from broker.log.replica_table import ReplicaSpan
from broker.log.startup_repair import StartupRepairs
from broker.log.worker import Worker
from broker.order_certificates.signing_key import SigningKey

#: Limits of one page of `scrub`.
SCRUB_EVENTS = 512
SCRUB_BYTES = 512 << 10


class LogReader:
    """The reading half of `EventLog`.

    A page ends before damage. If it would begin with damage, the log is repaired first; given-up
    damage fails with `DamageFound`. Without `wait`, `DamageFound` comes at once, while the repair
    continues.
    """

    log = Logger()

    def __init__(self, file: LogFile, read: Worker, repairs: Repairs) -> None:
        """`read` is a separate thread."""
        self._file = file
        self._read = read
        self.repairs = repairs
        self.has_left_out = False
        """True: since the start the log began anew behind events that it never had. The logs of
        their origins may have them."""
        self._bounds = file.bounds
        self.flows = KnownFlows(file.origin, file.flow_intervals, file.withheld)

    @property
    def startup_repairs(self) -> StartupRepairs:
        return self._file.startup_repairs

    def _log_startup_repairs(self) -> None:
        found = self.startup_repairs
        if found:
            self.log.error(
                "the event log was damaged: {healed} values were restored from copies, "
                "{count} are lost: {lost}",
                healed=found.healed,
                count=len(found.lost),
                lost=", ".join(found.lost[:20]),
            )

    @property
    def origin(self) -> str:
        return self._file.origin

    @property
    def signing_key(self) -> SigningKey | None:
        """Key of the node; None if it signs nothing."""
        return self._file.signing_key

    @property
    def archive_hold(self) -> ArchiveHold:
        return self._file.archive_hold

    @property
    def bounds(self) -> Bounds:
        """Durable extent, up to the last announced commit.

        The file may be ahead: readers would get events twice, from the log and with the
        announcement.
        """
        return self._bounds

    @property
    def begins_after(self) -> Mapping[str, Mark]:
        begins, flows = self._file.begins_after, self.flows
        if not flows.own or self.origin not in begins:
            return begins
        own = flows.own_marks(begins[self.origin]).items()
        return {**begins, **{flow: mark for flow, mark in own if mark > flows.since(flow)}}

    @property
    def history_chain(self) -> HistoryChain:
        return self._file.history_chain

    def read(
        self, start: int, max_events: int, max_bytes: int, *, wait: bool = True
    ) -> Deferred[list[LoggedEvent]]:
        """Return durable events within `bounds`, under their flows, withheld ones too."""
        page = self._read_page(wait, self._file.read, start, max_events, max_bytes)
        page.addCallback(self._within_bounds)
        return page.addCallback(self._with_flows) if self.flows.own else page

    def read_origin(
        self, origin: str, after: Mark, max_events: int, max_bytes: int, *, wait: bool = True
    ) -> Deferred[list[LoggedEvent]]:
        """Return durable events within `bounds`; own ones signed and under the origin."""
        page = self._read_page(wait, self._file.read_origin, origin, after, max_events, max_bytes)
        return page.addCallback(self._within_bounds)

    def read_unsigned(
        self, origin: str, after: Mark, max_events: int, max_bytes: int, *, wait: bool = True
    ) -> Deferred[list[LoggedEvent]]:
        """Return the same events for use on this node: those without a proof get none."""
        page = self._read_page(wait, self._file.read_unsigned, origin, after, max_events, max_bytes)
        return page.addCallback(self._within_bounds)

    def sign_own(self, events: Iterable[LoggedEvent]) -> None:
        """Sign own events that have no proof yet, before they leave the node."""
        self._file.sign_own(events)

    async def read_past_damage(
        self, origin: str, after: Mark, max_events: int, max_bytes: int
    ) -> list[LoggedEvent]:
        """Skip events that were given up."""
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
        return self._file.replica_spans

    def first_after(self, origin: str, mark: Mark) -> int:
        """Return the first durable serial after `mark`, or the next serial.

        Events of other own flows may come first.
        """
        return self._file.first_after(self.origin if self.flows.is_own(origin) else origin, mark)

    def arrival_at(self, serial: int) -> int:
        """Return the time of logging (ms since 1970) at `serial` or next; else 0."""
        return self._file.arrival_at(serial)

    def position_before(self, serial: int) -> dict[str, Mark]:
        found = self._file.position_before(serial)
        if self.flows.own and self.origin in found:
            found.update(self.flows.delivered_marks(found[self.origin], found))
        return found

    def durables(self) -> list[tuple[bytes, bytes]]:
        """Return the durable subscriptions as of the opening."""
        return self._file.durables()

    def damaged_durables(self) -> list[bytes]:
        return self._file.damaged_durables()

    def newest_incarnation(self, client_id: str) -> bytes | None:
        return self._file.newest_incarnation(client_id)

    def newest_incarnations(self) -> Deferred[list[tuple[str, bytes]]]:
        return self._read(self._file.newest_incarnations)

    async def scrub(self) -> None:
        """Find damage while other nodes have the events."""
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

    def _with_flows(self, events: list[LoggedEvent]) -> list[LoggedEvent]:
        self.flows.label_own(events)
        return events

    def _within_bounds(self, events: list[LoggedEvent]) -> list[LoggedEvent]:
        last = self._bounds.last
        if events and events[-1].serial > last:
            return [event for event in events if event.serial <= last]
        return events
