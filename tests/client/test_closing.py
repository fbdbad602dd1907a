"""A client has closed when its node has done with what it said, or says nothing for long."""

from __future__ import annotations

import pytest

from broker.client.client import FAREWELL, Client
from broker.session.messages import Goodbye
from tests.client.fake_node import FakeNet, FakeNode


class Closing:
    """A client that is connected, and closes."""

    def __init__(self) -> None:
        self.net = FakeNet()
        self.node = FakeNode(self.net, "n")
        self.client = self.net.client(self.node)
        self.times: list[float] = []

    def close(self) -> float:
        """Begin to, and let a moment pass; when that was."""
        began = self.net.clock.seconds()
        closed = self.client.close()
        closed.addCallback(lambda _: self.times.append(self.net.clock.seconds()))  # type: ignore[attr-defined]
        self.net.run(0.1)
        return began


def test_it_has_closed_when_the_node_ends_the_session() -> None:
    """What it said before, its positions among it, is not under way any more: who comes back at
    once gets nothing twice."""
    it = Closing()
    it.close()
    assert it.node.heard[-1] == Goodbye() and it.times == []
    it.node.driver.close()
    it.net.run(0.1)
    assert len(it.times) == 1
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
