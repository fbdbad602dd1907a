"""Events whose DTD is not cached: the batches behind them wait, other publishers do not."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import pytest
from twisted.internet.defer import Deferred
from zope.interface import implementer

from broker.client.received import ALL, Receipt
from broker.config import Settings
from broker.dtd.cache import CacheLimits
from broker.dtd.catalogue import shipped_folder
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType
from broker.testing.flights import Interest
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World
from tests.simulation.simulated_client import Reader, check_publishers, read_log

REPORT = DtdReference("report", "1.0")


@implementer(IDtdSource)
class LateSource:
    name = "the late source"

    def __init__(self) -> None:
        self.asked: list[tuple[DtdReference, Deferred[bytes]]] = []

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        answer: Deferred[bytes] = Deferred()
        self.asked.append((reference, answer))
        return answer

    def answer(self, name: str = "report") -> None:
        text = (shipped_folder() / "flight-1.0.dtd").read_bytes()
        _, waiting = self.asked.pop(0)
        waiting.callback(text.replace(b"flight", name.encode()))

    def fail(self) -> None:
        _, waiting = self.asked.pop(0)
        waiting.errback(UnknownType("has no such DTD"))


def add_source(world: World) -> LateSource:
    source = LateSource()
    world.node.dtds._sources = (*world.node.dtds._sources, source)
    return source


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        yield world


def match_all() -> Interest:
    return Interest(">", "true()", lambda stream, altitude: True)


def test_batch_waits_for_its_type_and_later_batches_stay_in_order(world: World) -> None:
    source = add_source(world)
    blocked, free = (Publisher(world.client(name)) for name in ("blocked", "free"))
    reader = Reader(world, world.client("reader"))
    world.run(1.0)
    blocked.publish(altitude=1)
    blocked.publish(altitude=2, name="report")
    blocked.publish(altitude=3)
    world.run(0.5)
    for altitude in (4, 5):
        blocked.publish(altitude=altitude)
        free.publish(altitude=altitude + 100)
        world.run(0.5)
    assert len(source.asked) == 1
    assert blocked.results == []
    assert len(free.receipts) == 2
    source.answer()
    world.run(1.0)
    reader.read()
    log = read_log(world)
    assert [t.altitude for t in log if t.header.event_id.client_id == "blocked"] == [1, 2, 3, 4, 5]
    check_publishers(log, [blocked, free], [], 1)
    reader.check(log)
    world.check_outcomes()


def test_events_without_a_dtd_are_refused_and_others_accepted(
    world: World,
) -> None:
    source = add_source(world)
    publisher = Publisher(world.client("publisher"))
    world.run(1.0)
    for altitude, name in ((1, "flight"), (2, "report"), (3, "flight"), (4, "report")):
        publisher.publish(altitude=altitude, name=name)
    world.run(0.5)
    publisher.publish(altitude=5)
    world.run(0.5)
    source.fail()
    world.run(1.0)
    results = [result for _, result in publisher.results]
    assert [isinstance(result, UnknownType) for result in results] == [
        False,
        True,
        False,
        True,
        False,
    ]
    assert isinstance(results[1], UnknownType) and "the late source" in str(results[1])
    assert [entry.altitude for entry in read_log(world)] == [1, 3, 5]
    world.check_outcomes()
    # This is the more precise error.
    assert world.node.input.outcomes.refused == {"forbidden-pointer": 2}
    publisher.publish(name="report")
    world.run(1.0)
    assert source.asked == [] and isinstance(publisher.results[-1][1], UnknownType)
    world.run(CacheLimits().failure_seconds)
    publisher.publish(name="report")
    world.run(1.0)
    source.answer()
    world.run(1.0)
    assert isinstance(publisher.results[-1][1], Receipt)


def test_publishers_waiting_for_one_type_share_the_request(world: World) -> None:
    source = add_source(world)
    publishers = [Publisher(world.client(f"p-{n}")) for n in range(3)]
    world.run(1.0)
    for publisher in publishers:
        publisher.publish(name="report")
    world.run(1.0)
    assert len(source.asked) == 1
    source.answer()
    world.run(1.0)
    check_publishers(read_log(world), publishers, [], 1)
    assert all(len(publisher.receipts) == 1 for publisher in publishers)


def test_several_types_are_requested_at_once(world: World) -> None:
    source = add_source(world)
    publisher = Publisher(world.client("publisher"))
    world.run(1.0)
    for name in ("report", "notice", "report"):
        publisher.publish(name=name)
    world.run(1.0)
    assert [reference.type for reference, _ in source.asked] == ["report", "notice"]
    source.answer("report")
    world.run(1.0)
    assert publisher.results == []
    source.answer("notice")
    world.run(1.0)
    assert len(publisher.receipts) == 3


def test_undescribed_types_are_accepted_if_configured() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, types=attrs.evolve(settings.types, undescribed="accept"))
    with World(1, settings=settings) as world:
        source = add_source(world)
        publisher = Publisher(world.client("publisher"))
        query = Interest(">", "/report/reportleg/altitude > 1", lambda s, altitude: altitude > 1)
        live = Reader(world, world.client("live"), query)
        world.run(1.0)
        for altitude in (1, 2, 3):
            publisher.publish(altitude=altitude, name="report")
        world.run(1.0)
        assert publisher.results == []
        source.fail()
        world.run(1.0)
        assert len(publisher.receipts) == 3
        world.kill_node()
        world.start_node()
        source = add_source(world)
        world.run(3.0)
        late = Reader(world, world.client("late"), query, start=ALL)
        world.run(2.0)
        # The headers say that no DTD describes them.
        assert source.asked == []
        for reader in (live, late):
            reader.read()
            reader.check(read_log(world))
            assert len(reader.events) == 2
        world.check_outcomes()


def test_waiting_batch_is_accepted_in_order_in_the_next_session() -> None:
    settings = Settings()
    settings = attrs.evolve(settings, limits=attrs.evolve(settings.limits, session_lease=1.0))
    with World(1, settings=settings) as world:
        source = add_source(world)
        publisher = Publisher(world.client("publisher"))
        world.run(1.0)
        publisher.publish(altitude=1, name="report")
        publisher.publish(altitude=2)
        world.run(1.0)
        publisher.publish(altitude=3)
        world.run(1.0)
        address = world.client_address("publisher")
        world.network.refuse(address)
        world.cut_client("publisher")
        world.run(3.0)
        assert not list(world.node.acceptor.sessions)
        # The old session's events are refused. Later ones wait until the client has sent the
        # earlier ones again.
        source.fail()
        world.run(1.0)
        world.run(CacheLimits().failure_seconds)
        world.network.heal(address)
        world.run(5.0)
        source.answer()
        world.run(2.0)
        assert [entry.altitude for entry in read_log(world)] == [1, 2, 3]
        check_publishers(read_log(world), [publisher], [], 1)
        world.check_outcomes()


def test_node_restart_loses_no_waiting_batch(world: World) -> None:
    add_source(world)
    publisher = Publisher(world.client("publisher"))
    world.run(1.0)
    publisher.publish(altitude=1, name="report")
    publisher.publish(altitude=2)
    world.run(1.0)
    world.kill_node()
    world.start_node()
    source = add_source(world)
    world.run(3.0)
    source.answer()
    world.run(1.0)
    assert [entry.altitude for entry in read_log(world)] == [1, 2]
    check_publishers(read_log(world), [publisher], [], 1)


def test_batch_returned_for_too_many_requests_is_accepted_later(world: World) -> None:
    source = add_source(world)
    world.node.dtds._limits = attrs.evolve(world.node.dtds._limits, max_waiters=1)
    first, second = (Publisher(world.client(name)) for name in ("first", "second"))
    world.run(1.0)
    first.publish(name="report")
    world.run(0.2)
    second.publish(altitude=1, name="report")
    second.publish(altitude=2)
    world.run(0.5)
    second.publish(altitude=3)
    world.run(3.0)
    assert first.results == second.results == []
    assert world.node.input.outcomes.not_taken > 0
    source.answer()
    world.run(5.0)
    log = read_log(world)
    assert [t.altitude for t in log if t.header.event_id.client_id == "second"] == [1, 2, 3]
    check_publishers(log, [first, second], [], 1)
    world.check_outcomes()


def test_unloaded_dtd_is_fetched_again_for_a_reader_of_the_log(world: World) -> None:
    source = add_source(world)
    publisher = Publisher(world.client("publisher"))
    world.run(1.0)
    publisher.publish(altitude=1, name="report")
    world.run(1.0)
    source.answer()
    world.run(1.0)
    assert world.node.dtds.remove(REPORT)
    reader = Reader(world, world.client("reader"), match_all(), start=ALL)
    bystander = Reader(
        world, world.client("bystander"), Interest("other", "true()", lambda s, _: s == "other")
    )
    world.run(1.0)
    publisher.publish("other")
    world.run(1.0)
    bystander.read()
    assert len(source.asked) == 1 and reader.arrivals == []
    assert len(bystander.events) == 1
    source.answer()
    world.run(1.0)
    reader.read()
    reader.check(read_log(world))
    assert len(reader.events) == 2
