"""A merge of two streams whose origins are different nodes, while one stream is silent (X15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from broker.client.client import Client
from broker.client.merged import MergedEvent, MergedSubscription, Merging
from broker.client.received import STORED
from broker.cluster.stream_time import TimeRequest
from broker.cluster.traffic.messages import RoutedMessage
from broker.event.envelope import EventLinkage, EventType, Order
from broker.testing.simulated_network import NetworkWorld

PLANS, TRACKS = "asdi.zbw.fp", "asdi.zbw.tz"
LINKAGE = EventLinkage(time_constraint="within 300ms", order=(Order(PLANS), Order(TRACKS)))
PAYLOAD = b"<flight><id>U</id><flightleg/></flight>"
WAIT = 20.0
#: Stream times come once a second, and an origin's clock has to pass the burst and the delay.
SOON = 0.3 + 0.5 + 2.0


class Site:
    """Three clusters in a line. Plans enter at `a`; tracks enter at `c`, where the reader is."""

    def __init__(self) -> None:
        self.world = NetworkWorld(7)
        self.world.add("a", "one")
        self.world.add("b", "two", gateways=["a"])
        self.world.add("c", "three", gateways=["b"])
        self.world.run(4.0)
        self.desk = self.world.client("desk", "a")
        self.radar = self.world.client("radar", "c")

    def begin(self) -> None:
        """Let the reader subscribe, and both feeds speak once."""
        self.subscription = self.subscribe(self.world.client("reader", "c"))
        self.events: list[MergedEvent] = []
        self.publish(self.desk, PLANS)
        self.publish(self.radar, TRACKS)
        self.read(WAIT + 5.0)
        assert [event.stream for event in self.events] == [PLANS, TRACKS]

    def subscribe(self, client: Client) -> MergedSubscription:
        asked = client.subscribe(
            streams="asdi.>",
            durable="d",
            start=STORED,
            merge=Merging(wait=WAIT, idle=1_000.0),
        )
        return cast(MergedSubscription, self.world.wait(asked))

    def publish(self, client: Client, stream: str) -> None:
        flight = EventType("flight", "1.0")
        self.world.wait(client.publish(stream, PAYLOAD, flight, linkage=LINKAGE))

    def read(self, seconds: float, events: int = 1_000) -> float:
        """Read for a while, or until there are so many events; the seconds that it took."""
        began = self.world.clock.seconds()
        while self.world.clock.seconds() < began + seconds and len(self.events) < events:
            self.world.run(0.05)
            self.events += cast("list[MergedEvent]", self.subscription.take_ready())
        return float(self.world.clock.seconds() - began)

    def track(self) -> float:
        """Publish a track; the seconds until the reader has it."""
        self.publish(self.radar, TRACKS)
        return self.read(2 * WAIT, len(self.events) + 1)


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    with made.world:
        yield made


def test_a_silent_stream_of_another_node_holds_up_nothing_for_long(site: Site) -> None:
    site.begin()
    assert max(site.track() for _ in range(3)) < SOON
    # Nobody published anything on the plans for long: the origin's clock goes on.
    site.world.run(300.0)
    assert site.track() < SOON
    site.publish(site.desk, PLANS)
    site.read(5.0)
    assert not any(event.late for event in site.events)
    assert site.subscription.counts.overdue == 0


def test_events_that_nobody_here_wants_hold_up_no_stream_time(site: Site) -> None:
    site.begin()
    other = site.world.client("other", "a")
    for _ in range(20):
        site.publish(other, "unwanted.stream")
    assert site.track() < SOON
    assert len(site.events) == 3


def test_origins_are_asked_only_while_somebody_merges(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.world.wait(site.world.client("plain", "c").subscribe())
    site.publish(site.desk, PLANS)
    asked: list[TimeRequest] = []
    driver = site.world.network_of("a").driver
    heard = driver.on_other_message

    def told(message: RoutedMessage) -> None:
        if isinstance(message, TimeRequest):
            asked.append(message)
        heard(message)

    driver.on_other_message = told
    site.world.run(5.0)
    assert not asked
    subscription = site.subscribe(site.world.client("reader", "c"))
    site.world.run(5.0)
    assert asked
    subscription.unsubscribe(forget=True)
    site.world.run(1.0)
    asked.clear()
    site.world.run(5.0)
    assert not asked


def test_a_node_of_the_previous_version_on_the_way_costs_the_wait_alone(site: Site) -> None:
    neighbour = site.world.network_of("c").neighbours.get("b")
    assert neighbour is not None and neighbour.version == 2
    neighbour.version = 1
    site.begin()
    assert WAIT <= site.track() < WAIT + 1.0
    # Plans that do come are merged as ever.
    site.publish(site.radar, TRACKS)
    site.publish(site.desk, PLANS)
    site.read(WAIT + 5.0)
    assert [event.stream for event in site.events[-2:]] == [PLANS, TRACKS]
    assert not any(event.late for event in site.events)


@pytest.mark.parametrize("old", ["broker.client.settings", "broker.sessions.reception"])
def test_a_session_of_version_1_goes_on_without_stream_times(
    site: Site, monkeypatch: pytest.MonkeyPatch, old: str
) -> None:
    monkeypatch.setattr(f"{old}.PROTOCOL_VERSIONS", (1,))
    site.begin()
    assert WAIT <= site.track() < WAIT + 1.0
    assert all(session.version == 1 for session in site.world["c"].reception.sessions)


def test_a_silent_origin_that_dies_is_waited_for_no_longer_than_before(site: Site) -> None:
    site.begin()
    assert site.track() < SOON
    site.world.kill("a")
    site.world.run(2.0)
    assert WAIT <= site.track() < WAIT + 1.0
    site.world.start("a")
    site.world.run(10.0)
    assert site.track() < SOON


def test_an_origin_whose_clock_is_behind_makes_the_merge_wait_and_nothing_late(site: Site) -> None:
    site.begin()
    site.world.set_clock_offset("a", -10_000)
    site.world.run(1.0)
    assert 10.0 < site.track() < 10.0 + SOON
    site.world.set_clock_offset("a", 60_000)
    assert site.track() < SOON
    assert not any(event.late for event in site.events)
