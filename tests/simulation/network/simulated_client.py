"""Clients of a simulated network: publishers, readers, and the events that must arrive."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgpack

from broker.client.client import Client
from broker.client.effects import EventBatch
from broker.client.received import NEW, Gap, ReceivedEvent, Start
from broker.client.subscription import Subscription
from broker.errors import BrokerError
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.log.logged_event import header_from_fields
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.simulated_client import FLIGHT, INTERESTS, Interest, Publisher, Truth

__all__ = ["FLIGHT", "INTERESTS", "Interest", "Publisher", "Reader", "Truths", "settle", "truths"]

#: Events of each origin's own clients, by origin.
Truths = Mapping[str, list[Truth]]
#: Identity of an event: ClientId, incarnation, sequence number.
Name = tuple[str, int, int]


def name_of(truth: Truth | ReceivedEvent) -> Name:
    event_id = truth.header.event_id
    return event_id.client_id, event_id.incarnation, event_id.sequence_number


def truths(world: NetworkWorld, seen: Truths | None = None) -> Truths:
    """Return the own events of all running nodes; `seen` supplies those of stopped ones."""
    found: dict[str, list[Truth]] = dict(seen or {})
    for name in world.running:
        log = world[name].event_log
        events = world.wait(log.read_origin(log.origin, (0, 0), 1 << 40, 1 << 60))
        held = {truth.mark: truth for truth in found.get(log.origin, [])}
        held.update({event.mark: Truth.of(event) for event in events})
        found[log.origin] = [held[mark] for mark in sorted(held)]
    return found


class Reader:
    """One subscription, with events of several origins, and the items that its user took."""

    def __init__(
        self,
        world: NetworkWorld,
        client: Client,
        interest: Interest = INTERESTS[0],
        *,
        durable: str = "",
        start: Start | None = None,
    ) -> None:
        self.world = world
        self.client = client
        self.interest = interest
        self.durable = durable
        self.subscription: Subscription | None = None
        self.items: list[ReceivedEvent | Gap] = []
        self.began_after: dict[str, Mark] = {}
        """Events after these marks must be delivered: the first cut."""
        self.error: BaseException | None = None
        self.wrong_liveness: list[ReceivedEvent] = []
        self._start = start
        asked: Any = client.subscribe(
            interest.query, interest.pattern, durable=durable, start=start, on_gap=self.items.append
        )
        asked.addCallbacks(self._flowing, self._failed)

    def _failed(self, failure: Any) -> None:
        self.error = failure.value

    def _flowing(self, subscription: Subscription) -> None:
        self.subscription = subscription
        if self._start in (None, NEW):
            self.began_after = dict(subscription.cut.marks)
        arrived = subscription.receive_item

        def watch(item: Any) -> None:
            for event in item.events if isinstance(item, EventBatch) else ():
                missed = event.place.mark <= subscription.cut.marks.get(event.place.origin, (0, 0))
                if (event.liveness is Liveness.RECOVERY) is not missed:
                    self.wrong_liveness.append(event)
            arrived(item)

        subscription.receive_item = watch  # type: ignore[method-assign]

    @property
    def flowing(self) -> bool:
        """True if the subscription has its first cut."""
        return self.subscription is not None

    def read(self) -> None:
        """Take what has arrived; earlier items count as processed."""
        if self.subscription is not None:
            while events := self.subscription.take_ready():
                self.items += events

    @property
    def events(self) -> list[ReceivedEvent]:
        return [item for item in self.items if isinstance(item, ReceivedEvent)]

    @property
    def gaps(self) -> list[Gap]:
        return [item for item in self.items if isinstance(item, Gap)]

    def wanted(self, logs: Truths) -> dict[Name, tuple[str, Truth]]:
        """Return the events that must arrive, each with the origin that logged it first."""
        found: dict[Name, tuple[str, Truth]] = {}
        for origin, log in logs.items():
            for truth in log:
                if truth.mark > self.began_after.get(origin, (0, 0)) and self.interest.wants(
                    truth.header.stream, truth.altitude
                ):
                    found.setdefault(name_of(truth), (origin, truth))
        return found

    def check(self, logs: Truths) -> None:
        """Check that each expected event came once, in its publisher's order, or is in a gap."""
        where = f"{self.client.client_id} {self.interest.query}, seed {self.world.seed}"
        assert self.error is None, f"{self.error!r} ({where})"
        assert self.flowing, f"it never flowed ({where})"
        wanted = self.wanted(logs)
        got = [name_of(event) for event in self.events]
        duplicates = sorted({name for name in got if got.count(name) > 1})
        assert not duplicates, f"twice: {duplicates} ({where})"
        matching = {
            name_of(truth)
            for log in logs.values()
            for truth in log
            if self.interest.wants(truth.header.stream, truth.altitude)
        }
        assert set(got) <= matching, f"unwanted: {sorted(set(got) - matching)} ({where})"
        missing = [wanted[name] for name in wanted.keys() - set(got)]
        lost = [
            (origin, truth.mark)
            for origin, truth in missing
            if not self._is_reported(origin, truth.mark)
        ]
        assert not lost, f"lost {sorted(lost)} of {len(wanted)} after {self.began_after} ({where})"
        newest: dict[tuple[str, int], int] = {}
        for client_id, incarnation, number in got:
            key = client_id, incarnation
            assert newest.get(key, 0) < number, f"order of {client_id} at {number}: {got} ({where})"
            newest[key] = number

    def _is_reported(self, origin: str, mark: Mark) -> bool:
        return any(
            gap.first.origin == origin and gap.first.mark <= mark <= gap.last.mark
            for gap in self.gaps
        )


def settle(
    world: NetworkWorld,
    publishers: Iterable[Publisher],
    readers: Iterable[Reader],
    seconds: float = 5.0,
    seen: Truths | None = None,
) -> Truths:
    """Wait for all receipts and deliveries, and check them."""
    world.run_until(lambda: not any(each.client.unacknowledged for each in publishers))
    world.run_until(lambda: all(each.flowing or each.error for each in readers))
    read(world, *readers, seconds=seconds)
    logs = truths(world, seen)
    for reader in readers:
        reader.check(logs)
    world.check_outcomes()
    return logs


def read(world: NetworkWorld, *readers: Reader, seconds: float = 2.0) -> None:
    """Read with these readers for some seconds of virtual time."""
    end = world.clock.seconds() + seconds
    while world.clock.seconds() < end:
        for reader in readers:
            reader.read()
        world.run(0.05)
    for reader in readers:
        reader.read()


def check_results(publishers: Iterable[Publisher], logs: Truths, seed: int) -> None:
    """Check that each acknowledged event is in the log of an origin."""
    held = {name_of(truth) for log in logs.values() for truth in log}
    for publisher in publishers:
        assert len(publisher.results) == publisher.published, f"seed {seed}"
        for event_id, result in publisher.results:
            assert not isinstance(result, BrokerError), f"{event_id}: {result!r} (seed {seed})"
            name = event_id.client_id, event_id.incarnation, event_id.sequence_number
            assert name in held, f"{event_id} was acknowledged and is nowhere (seed {seed})"


def headers_of(events: Iterable[Any]) -> list[Any]:
    """Return the headers of logged events."""
    return [header_from_fields(msgpack.unpackb(event.record)) for event in events]
