"""Notices of a newer version of a type, to the subscriptions that it affects (M16)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet.defer import Deferred, fail, succeed
from zope.interface import implementer

from broker.client.client import Client
from broker.client.received import TypeChanged
from broker.client.subscription import Subscription
from broker.config import Settings
from broker.dtd.catalogue import shipped_folder
from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType
from broker.event.envelope import EventType
from broker.node.metrics import NodeCollector
from broker.subscriptions import type_change_notices as notices
from broker.subscriptions.type_change_notices import MAX_WAITING
from broker.testing.flights import flight
from broker.testing.simulation import World
from broker.wire import messages

FLIGHT_2 = DtdReference("flight", "2.0")
TEXT_2 = (
    (shipped_folder() / "flight-1.1.dtd")
    .read_bytes()
    .replace(b"(speed?, altitude?, coordinate?)", b"(speed?, position?, coordinate?)")
    .replace(b"<!ELEMENT lat ", b"<!ELEMENT position (altitude)>\n<!ELEMENT lat ")
)
PAYLOAD_2 = (
    b"<flight><id>F</id><flightleg><position><altitude>3</altitude></position></flightleg></flight>"
)
NOTICE = messages.TypeChanged(
    *(1, "flight", "1.0", "2.0", "reads-what-changed", ""),
    *(("/flight/id",), (), ("/flight/id",), (), 0),
)


@implementer(IDtdSource)
class SingleDtdSource:
    name = "a neighbour"

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        if reference != FLIGHT_2:
            return fail(UnknownType("has no such DTD"))
        return succeed(TEXT_2)


@pytest.fixture
def world() -> Iterator[World]:
    with World(1) as world:
        world.node.dtds._sources = (*world.node.dtds._sources, SingleDtdSource())
        yield world


def subscribe(world: World, client: Client, query: str, **how: Any) -> Subscription:
    subscription: Subscription = world.wait(client.subscribe(query, **how))
    return subscription


def publish(world: World, client: Client, payload: bytes, version: str) -> None:
    world.wait(client.publish("asdi.zbw", payload, EventType("flight", version)))


def read(subscription: Subscription) -> int:
    """Return the number of events."""
    count = 0
    while events := subscription.take_ready():
        count += len(events)
    return count


def test_only_subscriptions_that_read_a_removed_path_are_notified(world: World) -> None:
    reader, other, publisher = (world.client(name) for name in ("reader", "other", "publisher"))
    high = subscribe(world, reader, "/flight/flightleg[altitude > 300]")
    anywhere = subscribe(world, reader, "//altitude")
    all_events = subscribe(world, other, "true()")
    named = subscribe(world, other, "/flight[id = 'F']")
    moved = subscribe(world, other, "/flight/flightleg/position/altitude = 3")
    publish(world, publisher, flight(400), "1.0")
    publish(world, publisher, PAYLOAD_2, "2.0")
    world.run(3.0)
    counts = [read(each) for each in (high, anywhere, all_events, named, moved)]
    assert counts == [1, 2, 2, 2, 1]
    assert list(high.changes) == [
        TypeChanged(
            type="flight",
            old="1.1",
            new="2.0",
            effect="can-not-match-any-more",
            reason=(
                "the DTD flight 2.0 has no element 'altitude' in flightleg (column 19); "
                "there is /flight/flightleg/position/altitude"
            ),
            paths=("/flight/flightleg/altitude", "/flight/flightleg/altitude/text()"),
            came=(
                "/flight/flightleg/position",
                "/flight/flightleg/position/altitude",
                "/flight/flightleg/position/altitude/@mode",
                "/flight/flightleg/position/altitude/@type",
                "/flight/flightleg/position/altitude/text()",
            ),
            went=(
                "/flight/flightleg/altitude",
                "/flight/flightleg/altitude/text()",
                "/flight/flightleg/altitude/@mode",
                "/flight/flightleg/altitude/@type",
            ),
            changed=(),
            left_out=0,
        )
    ]
    (change,) = anywhere.changes
    assert change.effect == "reads-what-changed"
    assert change.paths == ("/flight/flightleg/altitude", "/flight/flightleg/position/altitude")
    (change,) = moved.changes
    assert (change.effect, change.reason.partition(" (")[0]) == (
        "can-match-now",
        "the DTD flight 1.1 has no element 'position' in flightleg",
    )
    assert not all_events.changes and not named.changes
    assert world.node.notices.counts.sent == 3
    figures = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in NodeCollector(world.node).collect()
        for sample in metric.samples
    }
    assert figures["xmlbroker_type_notices_total", "sent"] == 3
    assert figures["xmlbroker_type_notices_total", "dropped"] == 0
    assert figures["xmlbroker_new_versions_total",] == 1
    publish(world, publisher, PAYLOAD_2, "2.0")
    world.run(3.0)
    assert read(high) == 0 and len(high.changes) == 1


def test_query_that_can_never_match_gets_a_warning(world: World) -> None:
    client = world.client("reader")
    wrong = subscribe(world, client, "/flight/flightleg[@statsu = 'active']")
    assert wrong.warnings == (
        "no event of the known types can match: the DTD flight 1.1 has no attribute 'statsu' "
        "on flightleg (column 19); there is 'status'",
    )
    assert subscribe(world, client, "/flight/flightleg[@status = 'active']").warnings == ()
    assert subscribe(world, client, "//timestamp").warnings == ()


def test_durable_subscription_that_was_away_is_warned_when_it_resumes(world: World) -> None:
    client = world.client("reader")
    query = "/flight/flightleg[altitude > 300]"
    durable = subscribe(world, client, query, durable="mine")
    assert durable.warnings == ()
    durable.unsubscribe()
    world.run(1.0)
    publish(world, world.client("publisher"), PAYLOAD_2, "2.0")
    world.run(1.0)
    assert world.node.notices.counts.sent == 0
    back = subscribe(world, client, query, durable="mine")
    assert back.warnings == (
        "the newest version can not match, though an older one can: the DTD flight 2.0 has no "
        "element 'altitude' in flightleg (column 19); there is /flight/flightleg/position/altitude",
    )
    world.run(1.0)
    read(back)
    assert [(change.new, change.effect) for change in back.changes] == [
        ("2.0", "can-not-match-any-more")
    ]
    assert subscribe(world, client, query).warnings == ()


def test_resuming_subscription_is_notified_of_new_versions_after_a_node_restart(
    world: World,
) -> None:
    """Notices come also for a query that may still match."""
    queries = {"mine": "//altitude > 300", "other": "/flight[id = 'F']"}
    client = world.client("reader")
    for name, query in queries.items():
        subscribe(world, client, query, durable=name)
    world.run(1.0)
    world.kill_client(client)
    world.run(60.0)
    world.node.dtds.add(FLIGHT_2, TEXT_2)
    world.run(60.0)
    world.kill_node()
    world.start_node()
    for incarnation, notices_sent in ((2, ["reads-what-changed"]), (3, [])):
        client = world.client("reader", incarnation=incarnation)
        back = {n: subscribe(world, client, query, durable=n) for n, query in queries.items()}
        world.run(2.0)
        for each in back.values():
            read(each)
        assert [change.effect for change in back["mine"].changes] == notices_sent
        assert not back["other"].changes
        world.kill_client(client)
        world.run(60.0)


def test_type_from_a_folder_is_known_before_its_first_event(tmp_path: Path) -> None:
    (tmp_path / "flight-2.0.dtd").write_bytes(TEXT_2)
    (tmp_path / "catalog.xml").write_text(
        '<catalog xmlns="urn:oasis:names:tc:entity:xmlns:xml:catalog"><public '
        f'publicId="{FLIGHT_2.public_id}" uri="flight-2.0.dtd"/></catalog>'
    )
    settings = Settings()
    settings = attrs.evolve(settings, types=attrs.evolve(settings.types, folders=(tmp_path,)))
    with World(1, settings=settings) as world:
        client = world.client("reader")
        old = subscribe(world, client, "/flight/flightleg/altitude")
        assert subscribe(world, client, "/flight/flightleg/position/altitude").warnings == ()
        world.run(2.0)
        assert world.node.notices.counts.sent == 0
        publish(world, world.client("publisher"), PAYLOAD_2, "2.0")
        world.run(2.0)
        read(old)
        assert [change.effect for change in old.changes] == ["can-not-match-any-more"]


def test_many_subscriptions_are_analysed_in_time_slices(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "QUERIES_PER_SLICE", 4)
    client = world.client("reader")
    queries = [f"/flight/flightleg[altitude > {number}]" for number in range(30)]
    many = [subscribe(world, client, query) for query in queries]
    ended = many.pop()
    world.node.dtds.add(FLIGHT_2, TEXT_2)
    world.run(0.015)
    assert world.node.notices.counts.sent == 4
    ended.unsubscribe()
    world.run(1.0)
    for each in many:
        read(each)
    assert [len(each.changes) for each in many] == [1] * 29
    assert len(ended.changes) == 0
    world.run(10.0)


def test_session_without_credit_keeps_its_newest_notices(world: World) -> None:
    client = world.client("reader")
    subscription = subscribe(world, client, "/flight/flightleg/altitude")
    notices_sent = world.node.notices
    (session,) = world.node.acceptor.sessions
    kept, session._credit = session._credit, 0
    for version in ("2.0", "2.1", "2.2"):
        without = TEXT_2.replace(b"altitude", b"a" + version[-1].encode())
        world.node.dtds.add(DtdReference("flight", version), without)
        world.run(1.0)
    assert notices_sent.counts.sent == 0
    session._credit = kept
    world.run(2.0)
    read(subscription)
    assert notices_sent.counts.sent == 1
    assert [change.new for change in subscription.changes] == ["2.0"]
    session._credit = 0
    (feed,) = session.delivery.feeds
    for _ in range(MAX_WAITING + 5):
        notices_sent._send_or_queue(session, feed, NOTICE)
    assert notices_sent.counts.dropped == 5
    session.end(None)
    notices_sent.send_waiting()
    assert notices_sent._waiting == {}
