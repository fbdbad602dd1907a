"""Replays and options of subscriptions, against a scripted node."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.client.asyncio_face import AsyncioLoop
from broker.client.client import Client
from broker.client.effects import (
    EventBatch,
    ItemArrived,
    ResumePoint,
    SharedDelivery,
    SubscriptionEnded,
)
from broker.client.positions_file import PositionsFile
from broker.client.received import ALL, ReceivedEvent, last
from broker.client.settings import ClientSettings, client_settings
from broker.client.subscription import Subscription
from broker.errors import BadPosition, BadQuery
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.wire.messages import NO_ERROR, Ended, Flowing, Subscribed, Unsubscribe
from tests.client.fake_node import NOW, FakeNet, FakeNode
from tests.client.node_messages import at, delivery


@pytest.fixture
def net() -> FakeNet:
    return FakeNet()


def iterate(subscription: Subscription) -> tuple[list[int], Deferred[None]]:
    """Return the offsets that an iteration yields, and its end."""
    got: list[int] = []

    async def read() -> None:
        async for event in subscription:
            got.append(event.place.offset)

    return got, Deferred.fromCoroutine(read())


def begin(node: FakeNode, *offsets: int, cut: int = 99) -> None:
    """Accept subscription 1 and deliver these events."""
    node.send(Subscribed(1, None, ()), Flowing(1, (("n", 1, cut),)), delivery(*offsets))


def test_a_replay_ends_when_the_node_ends_it(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    got, end = iterate(client.replay("q", "p.>", since=at(3), until=at(9), pace=0.5, rate=7))
    net.run(0.1)
    (asked,) = node.subscribes
    assert (asked.query, asked.pattern, asked.durable) == ("q", "p.>", "")
    assert (asked.start, asked.position, asked.until) == (
        *("position", (("n", 1, 3),), (("n", 1, 9),)),
    )
    assert (asked.until_ms, asked.pace, asked.rate) == (0, 0.5, 7)
    begin(node, 4, 8)
    assert got == [4, 8] and not end.called
    node.send(Ended(1, NO_ERROR))
    assert end.called and end.result is None


def test_a_replay_without_an_end_ends_now(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    for replay in (client.replay(), client.replay(since_time=5), client.replay(last=6)):
        replay.unsubscribe()
    client.replay(until_time=17)
    net.run(0.1)
    asked = [(each.start, each.time, each.last, each.until_ms) for each in node.subscribes]
    assert asked == [
        ("all", 0, 0, NOW),
        ("time", 5, 0, NOW),
        ("last", 0, 6, NOW),
        ("all", 0, 0, 17),
    ]


def test_a_replay_continues_at_another_node(net: FakeNet) -> None:
    first, second = FakeNode(net, "a"), FakeNode(net, "b")
    client = net.client(first, second)
    got, end = iterate(client.replay(until=at(9), rate=100))
    net.run(0.1)
    begin(first, 1, 2, 3)
    first.die()
    (asked,) = second.subscribes
    assert (asked.start, asked.position, asked.previous_address) == (
        "position",
        (("n", 1, 3),),
        "c/a",
    )
    assert (asked.until, asked.rate) == ((("n", 1, 9),), 100)
    begin(second, 4, 9)
    second.send(Ended(1, NO_ERROR))
    assert got == [1, 2, 3, 4, 9] and end.called


def test_a_replay_is_cancelled_by_unsubscribing(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    replay = client.replay()
    got, end = iterate(replay)
    net.run(0.1)
    begin(node, 1)
    replay.unsubscribe()
    net.run(0.1)
    assert Unsubscribe(1, False) in node.received
    node.send(delivery(2, previous=1), Ended(1, NO_ERROR))
    assert got == [1] and end.called


def test_iterating_raises_the_nodes_refusal(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    _, end = iterate(client.replay("((("))
    node.send(Ended(1, BadQuery("an operand is missing").to_wire()))
    failure: Any = end.result
    assert failure.check(BadQuery)
    end.addErrback(lambda _: None)


def test_a_replay_has_one_beginning(net: FakeNet) -> None:
    client = net.client(FakeNode(net, "a"))
    for wrong in ({"since": at(1), "last": 2}, {"since_time": 1, "last": 2}, {"pace": -1.0}):
        with pytest.raises(BadPosition):
            client.replay(**wrong)
    with pytest.raises(BadPosition):
        client.subscribe(start=last(0))


def test_a_subscription_sends_its_end_and_speed(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    client.subscribe(start=last(3), until=at(5), until_time=6, pace=2.0, rate=1)
    net.run(0.1)
    (asked,) = node.subscribes
    assert (asked.start, asked.last, asked.until_ms) == ("last", 3, 6)
    assert (asked.until, asked.pace, asked.rate) == ((("n", 1, 5),), 2.0, 1)


def test_the_next_process_resumes_at_another_node(net: FakeNet, tmp_path: Any) -> None:
    positions = PositionsFile(
        tmp_path, "alice", client_settings(client_id="alice", state=tmp_path).incarnation
    )
    node = FakeNode(net, "a")
    client = net.client(node, positions=positions, resume_points=positions.read())
    asked: Any = client.subscribe(durable="d")
    net.run(0.1)
    begin(node, 11, 12, 13, cut=10)
    subscription = asked.result
    assert len(subscription.take_ready()) == 3
    assert positions.read() == {}
    subscription.take_ready()
    net.run(1.0)
    assert positions.read() == {"d": ResumePoint(at(13), "c/a")}
    node.send(delivery(14, 15, previous=13))
    assert [e.place.offset for e in subscription.take_ready()] == [14, 15]
    assert subscription.take_ready() == []
    client.close()
    node.die()
    assert client.positions_error is None
    again = client_settings(client_id="alice", state=tmp_path)
    assert again.resume_points == {"d": ResumePoint(at(15), "c/a")}
    other = FakeNode(net, "b")
    net.client(other, resume_points=again.resume_points).subscribe(durable="d")
    net.run(0.1)
    (request,) = other.subscribes
    assert (request.start, request.position, request.previous_address) == (
        "stored",
        (("n", 1, 15),),
        "c/a",
    )


def test_closing_writes_the_positions_without_a_thread(net: FakeNet, tmp_path: Any) -> None:
    settings = client_settings(client_id="alice", state=tmp_path)
    node = FakeNode(net, "a")
    client = net.client(node, positions=settings.positions)
    assert client._position_writer is not None
    client._position_writer._run_in_thread = lambda call: None
    asked: Any = client.subscribe(durable="d")
    net.run(0.1)
    begin(node, 11, cut=10)
    asked.result.take_ready()
    asked.result.take_ready()
    net.run(1.0)
    assert settings.positions is not None and settings.positions.read() == {}
    client.close()
    assert settings.positions.read() == {"d": ResumePoint(at(11), "c/a")}


def _event(offset: int) -> ReceivedEvent:
    header = Header(
        EventId("p", 1, offset, 1), "s", "t", "1.0", SecurityLevel.MED, Liveness.RECOVERY
    )
    return ReceivedEvent(Place("n", 1, offset), header, Liveness.RECOVERY, b"<e/>")


def test_a_replay_is_the_same_under_asyncio() -> None:
    async def replay() -> list[int]:
        loop = asyncio.get_running_loop()
        client = Client(AsyncioLoop(loop), ("unix:/nowhere",), ClientSettings("alice", 1))
        events = client.replay(until_time=1)
        loop.call_soon(
            client._apply_effects,
            [ItemArrived(1, EventBatch([_event(1), _event(2)], SharedDelivery(1, 10)))],
        )
        loop.call_soon(client._apply_effects, [ItemArrived(1, SubscriptionEnded(None, Position()))])
        return [event.place.offset async for event in events]

    assert asyncio.run(replay()) == [1, 2]


def test_flowing_resolves_at_once_if_it_flows(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    replay = client.replay()
    net.run(0.1)
    begin(node, 1)
    flowing: Any = replay.flowing
    assert flowing.result is replay and replay.flowing is flowing
    assert ALL.kind == node.subscribes[0].start


def test_a_time_applies_to_origins_that_the_position_does_not_name(net: FakeNet) -> None:
    node = FakeNode(net, "a")
    client = net.client(node)
    client.replay("q", since=at(3), since_time=5_000)
    net.run(0.1)
    (asked,) = node.subscribes
    assert (asked.start, asked.position, asked.time) == ("position", (("n", 1, 3),), 5_000)
    for starts in ({"since": at(3)}, {"since_time": 5_000}):
        with pytest.raises(BadPosition, match="with the last so many"):
            client.replay("q", last=3, **starts)
