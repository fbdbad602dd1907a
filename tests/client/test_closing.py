"""Closing of a client: confirmed positions, or the timeout."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.client import CLOSE_TIMEOUT, Client
from broker.client.resume_points import CONFIRMATION_INTERVAL, POSITIONS_REQUEST
from broker.errors import ProtocolError
from broker.wire.messages import (
    NO_ERROR,
    Acknowledge,
    Answer,
    Ask,
    Flowing,
    Goodbye,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.client.fake_node import FakeNet, FakeNode
from tests.client.node_messages import delivery


class Closing:
    def __init__(self, *, durable: bool = False) -> None:
        self.net = FakeNet()
        self.node = FakeNode(self.net, "n")
        self.client = self.net.client(self.node)
        self.times: list[float] = []
        self.results: list[bool] = []
        if durable:
            subscription: Any = []
            self.client.subscribe(durable="d").addCallback(subscription.append)  # type: ignore[attr-defined]
            self.net.run(0.1)
            self.node.send(Subscribed(1, None, ()), Flowing(1, (("n", 1, 10),)), delivery(11))
            self.subscription = subscription[0]
            assert len(self.subscription.take_ready()) == 1
            # The next call marks it as processed.
            assert self.subscription.take_ready() == []

    def close(self) -> float:
        """Close, run 0.1 s, and return the time of the start."""
        began = self.net.clock.seconds()

        def closed(result: bool) -> None:
            self.times.append(self.net.clock.seconds())
            self.results.append(result)

        self.client.close().addCallback(closed)  # type: ignore[attr-defined]
        self.net.run(0.1)
        return began

    @property
    def asked(self) -> list[Ask]:
        return [each for each in self.node.received if isinstance(each, Ask)]

    def answer(self, offset: int) -> None:
        ask = self.asked[-1]
        assert ask.what == POSITIONS_REQUEST
        self.node.send(Answer(ask.request, NO_ERROR, {"d": [("n", 1, offset)]}))


def test_close_resolves_when_the_node_ends_the_session() -> None:
    """All earlier messages have been handled: a client that returns at once gets nothing twice."""
    closing = Closing()
    closing.close()
    assert closing.node.received[-1] == Goodbye() and closing.times == []
    closing.node.driver.close()
    closing.net.run(0.1)
    assert closing.results == [True]
    assert closing.net.clock.getDelayedCalls() == []


def test_closing_waits_for_a_silent_node_only_until_the_timeout() -> None:
    closing = Closing()
    began = closing.close()
    closing.net.run(CLOSE_TIMEOUT + 0.2)
    assert closing.times == [pytest.approx(began + CLOSE_TIMEOUT, abs=0.1)]
    assert closing.net.clock.getDelayedCalls() == []


def test_a_disconnected_client_closes_at_once() -> None:
    closing = Closing()
    closing.node.die()
    began = closing.close()
    assert closing.times == [began]


def test_a_lost_connection_completes_the_close() -> None:
    closing = Closing()
    closing.close()
    closing.node.die()
    assert len(closing.times) == 1
    assert isinstance(closing.client, Client) and not closing.client.connected


# ----------------------------------------------------------------------------- positions


def test_the_session_ends_when_the_node_has_committed_the_positions() -> None:
    closing = Closing(durable=True)
    closing.close()
    assert closing.node.received[-2:] == [Acknowledge(((1, (("n", 1, 11),)),)), closing.asked[-1]]
    closing.answer(11)
    assert closing.node.received[-1] == Goodbye() and closing.results == []
    closing.node.driver.close()
    closing.net.run(0.1)
    assert closing.results == [True]
    assert closing.net.clock.getDelayedCalls() == []


def test_an_uncommitted_position_is_requested_again() -> None:
    closing = Closing(durable=True)
    closing.close()
    closing.answer(10)
    assert closing.node.received[-1] != Goodbye()
    closing.net.run(CONFIRMATION_INTERVAL)
    assert len(closing.asked) == 2
    closing.answer(12)
    assert closing.node.received[-1] == Goodbye()


@pytest.mark.parametrize("connected", [True, False])
def test_without_an_answer_it_closes_after_the_timeout_with_false(connected: bool) -> None:
    closing = Closing(durable=True)
    if not connected:
        closing.node.die()
    began = closing.close()
    assert closing.results == []
    closing.net.run(CLOSE_TIMEOUT + 0.2)
    assert closing.results == [False]
    assert closing.times == [pytest.approx(began + CLOSE_TIMEOUT, abs=0.1)]
    assert closing.net.clock.getDelayedCalls() == []


def test_a_node_of_an_earlier_version_confirms_nothing() -> None:
    closing = Closing(durable=True)
    closing.close()
    unknown = ProtocolError("this node can not answer").to_wire()
    closing.node.send(Answer(closing.asked[-1].request, unknown, None))
    assert closing.node.received[-1] == Goodbye()
    closing.node.driver.close()
    closing.net.run(0.1)
    assert closing.results == [False]


def test_the_request_is_sent_again_in_a_new_session() -> None:
    closing = Closing(durable=True)
    closing.close()
    closing.net.network.cut(closing.node.address)
    closing.node.received.clear()
    closing.net.run(1.0)
    kinds = [type(each) for each in closing.node.received]
    assert kinds.index(Subscribe) < kinds.index(Acknowledge) < kinds.index(Ask)
    closing.answer(11)
    closing.node.driver.close()
    closing.net.run(0.1)
    assert closing.results == [True]


def test_a_position_unsubscribed_without_a_connection_is_confirmed_too() -> None:
    """The node of the next session does not have the position yet."""
    closing = Closing(durable=True)
    closing.net.network.cut(closing.node.address)
    closing.net.run(0.01)
    closing.subscription.unsubscribe()
    closing.node.received.clear()
    closing.net.run(1.0)
    kinds = [type(each) for each in closing.node.received]
    assert kinds.index(Subscribe) < kinds.index(Acknowledge) < kinds.index(Unsubscribe)
    closing.close()
    closing.answer(11)
    closing.node.driver.close()
    closing.net.run(0.1)
    assert closing.results == [True]
