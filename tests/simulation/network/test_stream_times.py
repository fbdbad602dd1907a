"""A merge of two streams of different nodes while one stream is silent (X15)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from broker.client.client import Client
from broker.client.merged import MergedEvent, MergedSubscription, Merging
from broker.client.received import STORED
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.cluster.stream_time import TimeRequest
from broker.cluster.traffic.messages import RoutedMessage
from broker.event.envelope import EventLinkage, EventType, Order
from broker.testing.simulated_network import NetworkWorld

PLANS, TRACKS = "asdi.zbw.fp", "asdi.zbw.tz"
LINKAGE = EventLinkage(time_constraint="within 300ms", order=(Order(PLANS), Order(TRACKS)))
PAYLOAD = b"<flight><id>U</id><flightleg/></flight>"
WAIT = 20.0
#: Stream times come each second; an origin's clock must pass the burst and the delay.
FAST = 0.3 + 0.5 + 2.0


class TwoFeeds:
    """Plans come from `a`; tracks and the reader are at `c`."""

    def __init__(self) -> None:
        self.world = NetworkWorld(7)
        self.world.add("a", "one")
        self.world.add("b", "two", gateways=["a"])
        self.world.add("c", "three", gateways=["b"])
        self.world.run(4.0)
        self.desk = self.world.client("desk", "a")
        self.radar = self.world.client("radar", "c")

    def start(self) -> None:
        self.subscription = self.subscribe(self.world.client("reader", "c"))
        self.events: list[MergedEvent] = []
        self.publish(self.desk, PLANS)
        self.publish(self.radar, TRACKS)
        self.read(WAIT + 5.0)
        assert [event.stream for event in self.events] == [PLANS, TRACKS]

    def subscribe(self, client: Client) -> MergedSubscription:
        requests = client.subscribe(
            streams="asdi.>",
            durable="d",
            start=STORED,
            merge=Merging(wait=WAIT, idle=1_000.0),
        )
        return cast(MergedSubscription, self.world.wait(requests))

    def publish(self, client: Client, stream: str) -> None:
        flight = EventType("flight", "1.0")
        self.world.wait(client.publish(stream, PAYLOAD, flight, linkage=LINKAGE))

    def read(self, seconds: float, events: int = 1_000) -> float:
        """Stop early with enough events; return the seconds."""
        began = self.world.clock.seconds()
        while self.world.clock.seconds() < began + seconds and len(self.events) < events:
            self.world.run(0.05)
            self.events += cast("list[MergedEvent]", self.subscription.take_ready())
        return float(self.world.clock.seconds() - began)

    def track(self) -> float:
        """Return the seconds until the track arrives."""
        self.publish(self.radar, TRACKS)
        return self.read(2 * WAIT, len(self.events) + 1)


@pytest.fixture
def feeds() -> Iterator[TwoFeeds]:
    made = TwoFeeds()
    with made.world:
        yield made


def test_silent_stream_of_another_node_does_not_delay_the_merge(feeds: TwoFeeds) -> None:
    feeds.start()
    assert max(feeds.track() for _ in range(3)) < FAST
    feeds.world.run(300.0)
    assert feeds.track() < FAST
    feeds.publish(feeds.desk, PLANS)
    feeds.read(5.0)
    assert not any(event.late for event in feeds.events)
    assert feeds.subscription.counts.overdue == 0


def test_unmatched_events_do_not_delay_stream_times(feeds: TwoFeeds) -> None:
    feeds.start()
    other = feeds.world.client("other", "a")
    for _ in range(20):
        feeds.publish(other, "unwanted.stream")
    assert feeds.track() < FAST
    assert len(feeds.events) == 3


def test_stream_times_are_requested_only_during_a_merge(
    feeds: TwoFeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.world.wait(feeds.world.client("plain", "c").subscribe())
    feeds.publish(feeds.desk, PLANS)
    requests: list[TimeRequest] = []
    driver = feeds.world.network_of("a").driver
    receive = driver.on_other_message

    def record(message: RoutedMessage) -> None:
        if isinstance(message, TimeRequest):
            requests.append(message)
        receive(message)

    driver.on_other_message = record
    feeds.world.run(5.0)
    assert not requests
    subscription = feeds.subscribe(feeds.world.client("reader", "c"))
    feeds.world.run(5.0)
    assert requests
    subscription.unsubscribe(forget=True)
    feeds.world.run(1.0)
    requests.clear()
    feeds.world.run(5.0)
    assert not requests


def test_relay_of_the_previous_version_costs_only_the_wait(feeds: TwoFeeds) -> None:
    neighbour = feeds.world.network_of("c").neighbours.get("b")
    assert neighbour is not None and neighbour.version == PROTOCOL_VERSIONS[-1]
    neighbour.version = 1
    feeds.start()
    assert WAIT <= feeds.track() < WAIT + 1.0
    feeds.publish(feeds.radar, TRACKS)
    feeds.publish(feeds.desk, PLANS)
    feeds.read(WAIT + 5.0)
    assert [event.stream for event in feeds.events[-2:]] == [PLANS, TRACKS]
    assert not any(event.late for event in feeds.events)


@pytest.mark.parametrize("module", ["broker.client.settings", "broker.sessions.acceptor"])
def test_session_of_version_1_works_without_stream_times(
    feeds: TwoFeeds, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setattr(f"{module}.PROTOCOL_VERSIONS", (1,))
    feeds.start()
    assert WAIT <= feeds.track() < WAIT + 1.0
    assert all(session.version == 1 for session in feeds.world["c"].acceptor.sessions)


def test_dead_silent_origin_is_waited_for_the_configured_time(feeds: TwoFeeds) -> None:
    feeds.start()
    assert feeds.track() < FAST
    feeds.world.kill("a")
    feeds.world.run(2.0)
    assert WAIT <= feeds.track() < WAIT + 1.0
    feeds.world.start("a")
    feeds.world.run_until(lambda: feeds.world.are_linked("a", "b"))
    feeds.world.run(10.0)
    assert feeds.track() < FAST


def test_origin_with_a_slow_clock_delays_the_merge_and_makes_nothing_late(feeds: TwoFeeds) -> None:
    feeds.start()
    feeds.world.set_clock_offset("a", -10_000)
    feeds.world.run(1.0)
    assert 10.0 < feeds.track() < 10.0 + FAST
    feeds.world.set_clock_offset("a", 60_000)
    assert feeds.track() < FAST
    assert not any(event.late for event in feeds.events)
