"""A client has closed when its node has committed its positions, or says nothing for long."""

from __future__ import annotations

from typing import Any

import pytest

from broker.client.client import FAREWELL, Client
from broker.client.leaving import ASK_AGAIN, POSITIONS
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
from tests.client.node_words import delivery


class Closing:
    """A client that is connected, and closes."""

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
            self.node.say(Subscribed(1, None, ()), Flowing(1, (("n", 1, 10),)), delivery(11))
            self.subscription = subscription[0]
            assert len(self.subscription.take_ready()) == 1
            # With the next look it counts as processed.
            assert self.subscription.take_ready() == []

    def close(self) -> float:
        """Begin to, and let a moment pass; when that was."""
        began = self.net.clock.seconds()

        def closed(result: bool) -> None:
            self.times.append(self.net.clock.seconds())
            self.results.append(result)

        self.client.close().addCallback(closed)  # type: ignore[attr-defined]
        self.net.run(0.1)
        return began

    @property
    def asked(self) -> list[Ask]:
        """The questions whether positions are committed."""
        return [each for each in self.node.heard if isinstance(each, Ask)]

    def answer(self, offset: int) -> None:
        """The node says that the position up to there is committed."""
        ask = self.asked[-1]
        assert ask.what == POSITIONS
        self.node.say(Answer(ask.request, NO_ERROR, {"d": [("n", 1, offset)]}))


def test_it_has_closed_when_the_node_ends_the_session() -> None:
    """What it said before, its positions among it, is not under way any more: who comes back at
    once gets nothing twice."""
    it = Closing()
    it.close()
    assert it.node.heard[-1] == Goodbye() and it.times == []
    it.node.driver.close()
    it.net.run(0.1)
    assert it.results == [True]
    assert it.net.clock.getDelayedCalls() == []


def test_a_node_that_does_not_answer_is_not_waited_for_long() -> None:
    it = Closing()
    began = it.close()
    it.net.run(FAREWELL + 0.2)
    assert it.times == [pytest.approx(began + FAREWELL, abs=0.1)]
    assert it.net.clock.getDelayedCalls() == []


def test_who_is_not_connected_closes_at_once() -> None:
    it = Closing()
    it.node.die()
    began = it.close()
    assert it.times == [began]


def test_who_is_connected_no_more_has_closed() -> None:
    it = Closing()
    it.close()
    it.node.die()
    assert len(it.times) == 1
    assert isinstance(it.client, Client) and not it.client.connected


# ----------------------------------------------------------------------------- positions


def test_the_session_ends_when_the_node_has_committed_the_positions() -> None:
    it = Closing(durable=True)
    it.close()
    assert it.node.heard[-2:] == [Acknowledge(((1, (("n", 1, 11),)),)), it.asked[-1]]
    it.answer(11)
    assert it.node.heard[-1] == Goodbye() and it.results == []
    it.node.driver.close()
    it.net.run(0.1)
    assert it.results == [True]
    assert it.net.clock.getDelayedCalls() == []


def test_a_position_that_is_not_stored_yet_is_asked_for_again() -> None:
    it = Closing(durable=True)
    it.close()
    it.answer(10)
    assert it.node.heard[-1] != Goodbye()
    it.net.run(ASK_AGAIN)
    assert len(it.asked) == 2
    it.answer(12)
    assert it.node.heard[-1] == Goodbye()


@pytest.mark.parametrize("connected", [True, False])
def test_without_an_answer_it_closes_in_time_and_says_so(connected: bool) -> None:
    it = Closing(durable=True)
    if not connected:
        it.node.die()
    began = it.close()
    assert it.results == []
    it.net.run(FAREWELL + 0.2)
    assert it.results == [False]
    assert it.times == [pytest.approx(began + FAREWELL, abs=0.1)]
    assert it.net.clock.getDelayedCalls() == []


def test_a_node_of_an_earlier_version_confirms_nothing() -> None:
    it = Closing(durable=True)
    it.close()
    unknown = ProtocolError("this node can not answer").to_wire()
    it.node.say(Answer(it.asked[-1].request, unknown, None))
    assert it.node.heard[-1] == Goodbye()
    it.node.driver.close()
    it.net.run(0.1)
    assert it.results == [False]


def test_the_question_is_asked_again_in_a_new_session() -> None:
    it = Closing(durable=True)
    it.close()
    it.net.network.cut(it.node.address)
    it.node.heard.clear()
    it.net.run(1.0)
    kinds = [type(each) for each in it.node.heard]
    assert kinds.index(Subscribe) < kinds.index(Acknowledge) < kinds.index(Ask)
    it.answer(11)
    it.node.driver.close()
    it.net.run(0.1)
    assert it.results == [True]


def test_what_was_unsubscribed_without_a_connection_is_confirmed_too() -> None:
    """The node of the next session does not know the position yet."""
    it = Closing(durable=True)
    it.net.network.cut(it.node.address)
    it.net.run(0.01)
    it.subscription.unsubscribe()
    it.node.heard.clear()
    it.net.run(1.0)
    kinds = [type(each) for each in it.node.heard]
    assert kinds.index(Subscribe) < kinds.index(Acknowledge) < kinds.index(Unsubscribe)
    it.close()
    it.answer(11)
    it.node.driver.close()
    it.net.run(0.1)
    assert it.results == [True]
