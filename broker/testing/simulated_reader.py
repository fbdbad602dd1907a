"""Readers in a network of nodes in virtual time, which check their events against the logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred

from broker.client.client import Client
from broker.client.effects import EventBatch
from broker.client.received import NEW, FlowStarted, Gap, ReceivedEvent, Start
from broker.client.subscription import Subscription
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.event.site_notice import SiteNotice
from broker.testing.flights import INTERESTS, Interest, LogEntry
from broker.testing.simulated_network import NetworkWorld

#: Events of each origin's own clients.
LogEntries = Mapping[str, list[LogEntry]]
#: ClientId, incarnation, sequence number.
EventName = tuple[str, int, int]


def name_of(entry: LogEntry | ReceivedEvent) -> EventName:
    event_id = entry.header.event_id
    return event_id.client_id, event_id.incarnation, event_id.sequence_number


def read_logs(world: NetworkWorld, seen: LogEntries | None = None) -> LogEntries:
    """`seen` supplies the events of stopped nodes."""
    found: dict[str, list[LogEntry]] = dict(seen or {})
    for name in world.running:
        log = world[name].event_log
        events = world.wait(log.read_origin(log.origin, (0, 0), 1 << 40, 1 << 60))
        log.flows.label_own(events)
        held = {entry.mark: entry for entry in found.get(log.origin, [])}
        held.update({event.mark: LogEntry.of(event) for event in events})
        found[log.origin] = [held[mark] for mark in sorted(held)]
    return found


class Reader:
    def __init__(
        self,
        world: NetworkWorld,
        client: Client,
        interest: Interest = INTERESTS[0],
        *,
        durable: str = "",
        start: Start | None = None,
        queue: str = "",
        mesh_parents: int = 0,
    ) -> None:
        """With `mesh_parents` its events come from so many routers of a mesh."""
        self.world = world
        self.client = client
        self.interest = interest
        self.durable = durable
        self.subscription: Subscription | None = None
        self.items: list[ReceivedEvent | Gap] = []
        self.notices: list[tuple[int, SiteNotice]] = []
        """About sites, each with the number of items before it."""
        self.starts_after: dict[str, Mark] = {}
        """The first cut; later events must be delivered."""
        self.error: BaseException | None = None
        self.wrong_liveness: list[ReceivedEvent] = []
        """Not `recovery` up to the furthest cut of all sessions, or not `live` behind it. Origins
        that no cut names are left out: the archive may have more of a dead one."""
        self._start = start
        named: dict[str, Any] = {
            "durable": durable,
            "start": start,
            "queue": queue,
            "on_gap": self.items.append,
            "on_notice": lambda notice: self.notices.append((len(self.items), notice)),
        }
        wanted = interest.query, interest.pattern
        if mesh_parents:
            joining = client.subscribe_in_mesh(*wanted, parents=mesh_parents, **named)
            asked: Any = Deferred.fromCoroutine(joining)
        else:
            asked = client.subscribe(*wanted, **named)
        asked.addCallbacks(self._flowing, self._failed)

    def _failed(self, failure: Any) -> None:
        self.error = failure.value

    def _flowing(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self._start in (None, NEW):
            self.starts_after = dict(subscription.cut.marks)
        arrived, cut = subscription.receive_item, subscription.cut

        def watch(item: Any) -> None:
            nonlocal cut
            if isinstance(item, FlowStarted):
                # The cut of a later session may be behind, for example after a restart.
                cut = cut.merged(item.cut)
            for event in item.events if isinstance(item, EventBatch) else ():
                mark = cut.marks.get(event.place.origin)
                is_recovery = event.liveness is Liveness.RECOVERY
                if mark is not None and is_recovery is not (event.place.mark <= mark):
                    self.wrong_liveness.append(event)
            arrived(item)

        subscription.receive_item = watch  # type: ignore[method-assign]

    @property
    def is_flowing(self) -> bool:
        return self.subscription is not None

    def read(self) -> None:
        """Earlier items count as processed."""
        if self.subscription is not None:
            while events := self.subscription.take_ready():
                self.items += events

    @property
    def events(self) -> list[ReceivedEvent]:
        return [item for item in self.items if isinstance(item, ReceivedEvent)]

    @property
    def gaps(self) -> list[Gap]:
        return [item for item in self.items if isinstance(item, Gap)]

    def expected(self, logs: LogEntries) -> dict[EventName, tuple[str, LogEntry]]:
        """Return the events that must arrive, each with its first origin."""
        found: dict[EventName, tuple[str, LogEntry]] = {}
        for origin, log in logs.items():
            for entry in log:
                if entry.mark > self.starts_after.get(entry.flow, (0, 0)) and self.interest.matches(
                    entry.header.stream, entry.altitude
                ):
                    found.setdefault(name_of(entry), (origin, entry))
        return found

    def check(self, logs: LogEntries) -> None:
        """Each expected event came once, in its publisher's order, or is in a gap."""
        where = f"{self.client.client_id} {self.interest.query}, seed {self.world.seed}"
        assert self.error is None, f"{self.error!r} ({where})"
        assert self.is_flowing, f"it never flowed ({where})"
        assert not self.wrong_liveness, f"{self.wrong_liveness[0].place} ({where})"
        wanted = self.expected(logs)
        got = [name_of(event) for event in self.events]
        duplicates = sorted({name for name in got if got.count(name) > 1})
        assert not duplicates, f"twice: {duplicates} ({where})"
        matching = {
            name_of(entry)
            for log in logs.values()
            for entry in log
            if self.interest.matches(entry.header.stream, entry.altitude)
        }
        assert set(got) <= matching, f"unwanted: {sorted(set(got) - matching)} ({where})"
        missing = [wanted[name] for name in wanted.keys() - set(got)]
        lost = [
            (entry.flow, entry.mark)
            for _, entry in missing
            if not self._is_reported(entry.flow, entry.mark)
        ]
        assert not lost, f"lost {sorted(lost)} of {len(wanted)} after {self.starts_after} ({where})"
        newest: dict[tuple[str, int], int] = {}
        for client_id, incarnation, number in got:
            key = client_id, incarnation
            assert newest.get(key, 0) < number, f"order of {client_id} at {number}: {got} ({where})"
            newest[key] = number

    def _is_reported(self, flow: str, mark: Mark) -> bool:
        return any(
            gap.first.origin == flow and gap.first.mark <= mark <= gap.last.mark
            for gap in self.gaps
        )


def read(world: NetworkWorld, *readers: Reader, seconds: float = 2.0) -> None:
    """Read in virtual time."""
    end = world.clock.seconds() + seconds
    while world.clock.seconds() < end:
        for reader in readers:
            reader.read()
        world.run(0.05)
    for reader in readers:
        reader.read()
