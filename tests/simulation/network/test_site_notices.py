"""Notices of a transport, in one sequence with the events that it passes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import pytest

from broker.client.received import ALL, ReceivedEvent
from broker.event.flow import is_default_flow
from broker.event.place import Mark
from broker.event.site_coverage import CoveredMessages
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteNotice, SiteStatus
from broker.streams.contract import FlowBatch, ITransportContext
from broker.testing.flights import Interest
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_reader import Reader, read
from tests.seeds import seeds
from tests.simulation.network.ordering_transport import OrderingEnd, OrderingTransport
from tests.simulation.network.test_ordered_flows import (
    add_nodes,
    publish,
    publishers_at,
    readers_at,
    restart,
    settle,
)

SEEDS = seeds(1, 10)
PATTERN = "other"

Entry: TypeAlias = tuple[str, Mark] | SiteNotice


class NotifyingEnd(OrderingEnd):
    """Puts notices between some of the batches that it passes on."""

    def __init__(self, transport: OrderingTransport, context: ITransportContext) -> None:
        super().__init__(transport, context)
        self._world = transport.world
        self.passed: list[Entry] = []

    def pass_on(self, batch: FlowBatch) -> None:
        super().pass_on(batch)
        self.passed += [(batch.flow, event.mark) for event in batch.events]
        number = len(self.passed)
        instance, random = self.context.instance, self._world.random
        while random.random() < 0.5:
            site = random.choice("abc")
            if random.random() < 0.5:
                self.notify(SiteStatus(instance, site, "suspected", "silent", number))
            else:
                self.notify(MissingMessages(instance, site, 1, number, number, "lost"))

    def notify(self, notice: SiteNotice) -> None:
        self.context.notify(notice)
        self.passed.append(notice)

    @property
    def statuses(self) -> list[SiteStatus]:
        """The present ones, in the order of their last change."""
        found: dict[str, SiteStatus] = {}
        for each in self.passed:
            if isinstance(each, SiteStatus):
                found.pop(each.site, None)
                found[each.site] = each
        return list(found.values())


def end_of(transport: OrderingTransport, name: str) -> NotifyingEnd:
    end = transport.ends[name]
    assert isinstance(end, NotifyingEnd)
    return end


def start_notifying(world: NetworkWorld, *names: str) -> OrderingTransport:
    transport = OrderingTransport(world)
    transport.end = NotifyingEnd
    add_nodes(transport, *names)
    return transport


def sequence_of(reader: Reader) -> list[Entry]:
    """Return the events of ordered flows and the notices, as they came."""

    def entries() -> Iterator[Entry]:
        notices = list(reader.notices)
        for index, item in enumerate(reader.items):
            while notices and notices[0][0] <= index:
                yield notices.pop(0)[1]
            if isinstance(item, ReceivedEvent) and not is_default_flow(item.place.origin):
                yield item.place.origin, item.place.mark
        yield from (notice for _, notice in notices)

    return list(entries())


@pytest.mark.parametrize("seed", seeds(2, 12))
def test_notices_and_events_come_in_the_sequence_of_the_transport(seed: int) -> None:
    with NetworkWorld(seed, thread_delay=0.01) as world:
        names = ("a", "b", "c")
        transport = start_notifying(world, *names)
        readers = readers_at(world, *names)
        publishers = publishers_at(world, *names)
        publish(world, publishers)
        settle(world, publishers, readers)
        for reader, name in zip(readers, names, strict=True):
            end = end_of(transport, name)
            assert not end.recovered_events and len(reader.notices) > 10
            assert sequence_of(reader) == end.passed


@pytest.mark.parametrize("queue", ["drop-oldest", "block"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_slow_reader_gets_the_same_sequence(seed: int, queue: str) -> None:
    with NetworkWorld(seed) as world:
        transport = start_notifying(world, "a", "b")
        reader = Reader(world, world.client("slow", "a", window_bytes=4_096), queue=queue)
        world.run_until(lambda: reader.is_flowing)
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers, 40)
        world.run(5.0)
        (session,) = [
            each for each in world["a"].acceptor.sessions if each.identity.client_id == "slow"
        ]
        assert session.delivery.site_notices.has_waiting
        settle(world, publishers, [reader])
        assert sequence_of(reader) == end_of(transport, "a").passed
        assert not session.delivery.site_notices.has_waiting


@pytest.mark.parametrize("seed", SEEDS)
def test_a_later_subscription_gets_the_present_statuses_first(seed: int) -> None:
    with NetworkWorld(seed) as world:
        transport = start_notifying(world, "a", "b")
        # The log has events of other nodes only for a subscription.
        readers_at(world, "a")
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers)
        world.run(5.0)
        end = end_of(transport, "a")
        present, passed = end.statuses, len(end.passed)
        assert present
        new = Reader(world, world.client("new", "a"))
        past = Reader(world, world.client("past", "a"), start=ALL)
        elsewhere = Reader(
            world, world.client("other", "a"), Interest("asdi.>", "true()", lambda *_: True)
        )
        readers = (new, past, elsewhere)
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        publish(world, publishers)
        settle(world, publishers, [new])
        read(world, past, elsewhere)
        assert sequence_of(new) == [*present, *end.passed[passed:]]
        events = [each for each in end.passed[:passed] if isinstance(each, tuple)]
        assert sequence_of(past) == [*events, *present, *end.passed[passed:]]
        assert elsewhere.notices == [] and elsewhere.events


def test_a_restarted_node_has_the_statuses_of_its_new_transport() -> None:
    with NetworkWorld(1) as world:
        transport = start_notifying(world, "a", "b")
        (reader,) = readers_at(world, "a", durable="d")
        publishers = publishers_at(world, "a", "b")
        publish(world, publishers, 5)
        settle(world, publishers, [reader])
        before = len(reader.notices)
        restart(transport, "a", PATTERN)
        status = SiteStatus(end_of(transport, "a").context.instance, "b", "connected", "", 9)
        end_of(transport, "a").notify(status)
        read(world, reader, seconds=5.0)
        assert [notice for _, notice in reader.notices[before:]] == [status]
        publish(world, publishers, 5)
        settle(world, publishers, [reader])
        sequence, passed = sequence_of(reader), end_of(transport, "a").passed
        assert sequence[-len(passed) :] == passed


@pytest.mark.parametrize("seed", SEEDS)
def test_notices_of_a_full_disk_come_and_no_event_is_lost(seed: int) -> None:
    with NetworkWorld(seed, thread_delay=0.02) as world:
        transport = start_notifying(world, "a", "b")
        readers = readers_at(world, "a")
        publishers = publishers_at(world, "a", "b")
        for _ in range(4):
            publish(world, publishers, 3)
            world.set_disk_full("a", True)
            world.run(world.random.uniform(0.1, 2.0))
            world.set_disk_full("a", False)
        world.run(5.0)
        settle(world, publishers, readers, 70.0)
        assert world["a"].event_log.failures
        notices = [each for each in end_of(transport, "a").passed if not isinstance(each, tuple)]
        assert [notice for _, notice in readers[0].notices] == notices


def test_clients_of_earlier_versions_get_no_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    with NetworkWorld(1) as world:
        start_notifying(world, "a")
        with monkeypatch.context() as patch:
            patch.setattr("broker.client.settings.PROTOCOL_VERSIONS", (1, 2, 3))
            readers = readers_at(world, "a")
        publishers = publishers_at(world, "a")
        publish(world, publishers)
        settle(world, publishers, readers)
        assert readers[0].notices == []


def test_clients_of_version_4_get_statuses_and_no_coverage(monkeypatch: pytest.MonkeyPatch) -> None:
    with NetworkWorld(1) as world:
        transport = start_notifying(world, "a")
        with monkeypatch.context() as patch:
            patch.setattr("broker.client.settings.PROTOCOL_VERSIONS", (1, 2, 3, 4))
            (earlier,) = readers_at(world, "a")
        present = Reader(world, world.client("present", "a"))
        world.run_until(lambda: present.is_flowing)
        instance = end_of(transport, "a").context.instance
        status = SiteStatus(instance, "b", "connected", "", 9)
        coverage = SiteCoverage(instance, "b", (CoveredMessages("a", 1, 1, 5),))
        for notice in (coverage, status):
            end_of(transport, "a").notify(notice)
        new = Reader(world, world.client("new", "a"))
        read(world, earlier, present, new)
        assert [notice for _, notice in earlier.notices] == [status]
        assert [notice for _, notice in present.notices] == [coverage, status]
        assert [notice for _, notice in new.notices] == [status, coverage]
        assert list(present.subscription.notices if present.subscription else ()) == [status]


def test_a_wrong_notice_stops_the_transport_with_the_reason() -> None:
    with NetworkWorld(1) as world:
        transport = start_notifying(world, "a")

        def notify_wrongly(batch: FlowBatch) -> None:
            status = SiteStatus("another", "b", "connected", "", 1)
            transport.ends["a"].context.notify(status)

        transport.ends["a"].publish = notify_wrongly  # type: ignore[method-assign]
        readers = readers_at(world, "a")
        publishers = publishers_at(world, "a")
        publish(world, publishers, 3)
        settle(world, publishers, readers)
        transports = world["a"].transports
        assert transports is not None
        errors = [each["error"] for each in transports.snapshot()]
        assert "names the stack another" in errors[1] and readers[0].notices == []
