from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, cast

import attrs
import pytest
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.network_question import Question, Reply
from broker.cluster.node_requests import NodeRequests
from broker.cluster.traffic.frame import MAX_HOPS

HERE, THERE, OTHER = (Address(("c",), name) for name in ("here", "there", "other"))


@attrs.define
class Messenger:
    """Only `THERE` is reachable."""

    own_address: Address | None = HERE
    sent: list[Question] = attrs.field(factory=list)
    listeners: dict[type, Callable[[Any], object]] = attrs.field(factory=dict)
    numbers: count[int] = attrs.field(factory=lambda: count(100))

    def add_listener(self, kind: type, listener: Callable[[Any], object]) -> None:
        self.listeners[kind] = listener

    def send(self, message: Question, attempt: int = 0) -> None:
        self.sent.append(message)

    def is_reachable(self, address: Address) -> bool:
        return address == THERE

    def next_request_number(self) -> int:
        return next(self.numbers)


def ask(requests: NodeRequests[Reply]) -> list[Reply | None]:
    """Ask `THERE`. The list receives its result."""
    fields = requests.first_fields(THERE)
    assert fields is not None
    found: list[Reply | None] = []
    requests.send(Question(*fields, "topic", b"", None, 1_000, 0), 1.0).addCallback(found.append)
    return found


def reply(source: Address, number: int) -> Reply:
    return Reply(HERE, source, MAX_HOPS, number, (), (), 0)


def requests_of(messenger: Messenger, clock: Clock, most: int = 8) -> NodeRequests[Reply]:
    return NodeRequests(cast(Any, messenger), clock, Reply, most)


def test_only_the_asked_node_answers_a_request() -> None:
    messenger, clock = Messenger(), Clock()
    requests = requests_of(messenger, clock)
    first, second = ask(requests), ask(requests)
    assert [message.request for message in messenger.sent] == [100, 101]
    for false in (reply(OTHER, 100), reply(THERE, 99), reply(OTHER, 101)):
        messenger.listeners[Reply](false)
    assert (first, second) == ([], [])
    messenger.listeners[Reply](reply(THERE, 101))
    clock.advance(1.0)
    assert (first, second) == ([None], [reply(THERE, 101)])


@pytest.mark.parametrize("target", [None, OTHER])
def test_an_unreachable_node_gets_no_request(target: Address | None) -> None:
    messenger = Messenger()
    assert requests_of(messenger, Clock()).first_fields(target) is None
    messenger.own_address = None
    assert requests_of(messenger, Clock()).first_fields(THERE) is None
    assert next(messenger.numbers) == 100


def test_requests_beyond_the_bound_are_refused() -> None:
    messenger, clock = Messenger(), Clock()
    requests = requests_of(messenger, clock, most=1)
    ask(requests)
    assert requests.first_fields(THERE) is None
    clock.advance(1.0)
    assert requests.first_fields(THERE) == (THERE, HERE, MAX_HOPS, 101)
