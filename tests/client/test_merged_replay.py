"""A replay in resolved order, against a scripted node."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from broker.client.merged import MergedSubscription, Merging
from broker.wire.messages import NO_ERROR, Ended, Flowing, Subscribed
from tests.client.fake_node import FakeNet, FakeNode
from tests.client.node_messages import at, delivery


def test_a_merged_replay_ends_with_its_held_events() -> None:
    net = FakeNet()
    node = FakeNode(net, "a")
    # The ordered streams never come.
    merge = Merging.by("time within 1h", ["no.such", "other"], wait=50.0)
    replay = net.client(node).replay("q", until=at(9), merge=merge)
    assert isinstance(replay, MergedSubscription)
    got: list[int] = []

    async def read() -> None:
        async for event in replay:
            got.append(event.place.offset)

    end = Deferred.fromCoroutine(read())
    net.run(0.1)
    node.send(Subscribed(1, None, ()), Flowing(1, (("n", 1, 99),)), delivery(4, 8))
    net.run(1.0)
    assert (got, end.called) == ([], False)
    node.send(Ended(1, NO_ERROR))
    net.run(0.1)
    assert (got, end.called) == ([4, 8], True)
