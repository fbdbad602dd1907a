from __future__ import annotations

from typing import Any

from broker.client.client import Client
from broker.client.effects import EventBatch
from broker.client.received import NEW, Gap, Receipt, ReceivedEvent, Start
from broker.client.subscription import Subscription
from broker.event.envelope import Liveness
from broker.event.place import Mark
from broker.testing.flights import INTERESTS, Interest, LogEntry
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World

#: Of gaps that count dropped events.
_QUEUE_REASONS = ("slow", "coalesced")


def read_log(world: World) -> list[LogEntry]:
    events = world.wait(world.node.event_log.read(1, 1 << 40, 1 << 60))
    return [LogEntry.of(event) for event in events]


class Reader:
    def __init__(
        self,
        world: World,
        client: Client,
        interest: Interest = INTERESTS[0],
        *,
        durable: str = "",
        start: Start | None = None,
        slow: bool = False,
        queue: str = "",
    ) -> None:
        self.world = world
        self.client = client
        self.interest = interest
        self.durable = durable
        self.slow = slow
        self.subscription: Subscription | None = None
        self.cut: Mark = (0, 0)
        """The first one."""
        self.starts_after: Mark = (0, 0)
        """Later events must be delivered."""
        self._start = start
        self.items: list[ReceivedEvent | Gap] = []
        self.wrong_liveness: list[ReceivedEvent] = []
        self.error: BaseException | None = None
        self.arrivals: list[tuple[float, ReceivedEvent]] = []
        asked: Any = client.subscribe(
            interest.query,
            interest.pattern,
            durable=durable,
            start=start,
            queue=queue,
            on_gap=self.items.append,
        )
        asked.addCallbacks(self._flowing, self._failed)

    def _failed(self, failure: Any) -> None:
        self.error = failure.value

    def _flowing(self, subscription: Subscription) -> None:
        self.subscription = subscription
        (self.cut,) = subscription.cut.marks.values()
        if self._start in (None, NEW):
            (self.starts_after,) = subscription.position.marks.values() or [(0, 0)]
        arrived = subscription.receive_item

        def watch(item: Any) -> None:
            if isinstance(item, EventBatch):
                now = self.world.clock.seconds()
                (cut,) = subscription.cut.marks.values()
                for event in item.events:
                    self.arrivals.append((now, event))
                    missed = event.place.mark <= cut
                    if (event.liveness is Liveness.RECOVERY) is not missed:
                        self.wrong_liveness.append(event)
            arrived(item)

        subscription.receive_item = watch  # type: ignore[method-assign]

    def read(self) -> None:
        """Earlier items count as processed."""
        if self.subscription is not None:
            while events := self.subscription.take_ready():
                self.items += events

    def read_one(self) -> None:
        if self.subscription is not None:
            self.items += self.subscription.take_ready()

    @property
    def events(self) -> list[ReceivedEvent]:
        return [item for item in self.items if isinstance(item, ReceivedEvent)]

    @property
    def gaps(self) -> list[Gap]:
        return [item for item in self.items if isinstance(item, Gap)]

    def expected(self, log: list[LogEntry]) -> list[Mark]:
        start = self._start.time_ms if self._start is not None else 0
        return [
            entry.mark
            for entry in log
            if entry.mark > self.starts_after
            and entry.arrival >= start
            and self.interest.matches(entry.header.stream, entry.altitude)
        ]

    def check(self, log: list[LogEntry]) -> None:
        """Each expected event came once and in order, or in a reported gap."""
        where = f"{self.client.client_id} {self.interest.query}, seed {self.world.seed}"
        assert self.error is None, f"{self.error!r} ({where})"
        assert not self.wrong_liveness, f"{self.wrong_liveness[0].place} ({where})"
        wanted = self.expected(log)
        got = [event.place.mark for event in self.events]
        assert got == sorted(set(got)), f"order or duplicates: {got} ({where})"
        assert set(got) <= set(wanted), f"unwanted: {sorted(set(got) - set(wanted))} ({where})"
        missing = sorted(set(wanted) - set(got))
        dropped = sum(gap.count for gap in self.gaps if gap.reason in _QUEUE_REASONS)
        if self.durable or not self.gaps:
            assert not missing, (
                f"lost {missing} of {len(wanted)} after {self.starts_after} ({where})"
            )
        assert dropped == len(missing), f"{dropped} told, {len(missing)} missing ({where})"
        self._check_gaps(missing, where)

    def _check_gaps(self, missing: list[Mark], where: str) -> None:
        last: Mark = (0, 0)
        for item in self.items:
            if isinstance(item, Gap):
                assert last < item.first.mark <= item.last.mark, f"{item} after {last} ({where})"
                inside = [m for m in missing if item.first.mark <= m <= item.last.mark]
                is_exact = item.reason in _QUEUE_REASONS
                assert not is_exact or len(inside) == item.count, f"{item} ({where})"
                last = item.last.mark
            else:
                assert last < item.place.mark, f"{item.place} after {last} ({where})"
                last = item.place.mark


def check_publishers(
    log: list[LogEntry], publishers: list[Publisher], lost: list[Publisher], seed: int
) -> None:
    """Each acknowledged event is in the log once, at its place and in order.

    Publishers in `lost` were killed.
    """
    by_id: dict[tuple[str, int, int], LogEntry] = {}
    newest: dict[tuple[str, int], int] = {}
    for entry in log:
        event_id = entry.header.event_id
        key = (event_id.client_id, event_id.incarnation)
        assert newest.get(key, 0) < event_id.sequence_number, f"{event_id} (seed {seed})"
        newest[key] = event_id.sequence_number
        by_id[(*key, event_id.sequence_number)] = entry
    for publisher in publishers:
        assert len(publisher.results) == publisher.published, f"seed {seed}"
    for publisher in (*publishers, *lost):
        for event_id, result in publisher.results:
            assert isinstance(result, Receipt), f"{event_id}: {result!r} (seed {seed})"
            entry = by_id[event_id.client_id, event_id.incarnation, event_id.sequence_number]
            assert result.duplicate or result.place is not None
            if result.place is not None:
                assert result.place.mark == entry.mark, f"{event_id} (seed {seed})"


def publish(world: World, publisher: Publisher, count: int, size: int = 0) -> None:
    for _ in range(count):
        publisher.publish(altitude=600, size=size)
    world.run_until(lambda: not publisher.client.unacknowledged)


def read(world: World, *readers: Reader, seconds: float = 2.0) -> None:
    """Read in virtual time."""
    end = world.clock.seconds() + seconds
    while world.clock.seconds() < end:
        for reader in readers:
            reader.read()
        world.run(0.05)


def offsets(reader: Reader) -> list[int]:
    return [event.place.offset for event in reader.events]
