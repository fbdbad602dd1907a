from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.seed_poller import PERIOD, SHORTEST_PERIOD, SeedPoller
from broker.cluster.discovery.seed_source import ISeedSource
from broker.errors import NotConnected

SOMEBODY = (Endpoint("10.0.0.7", 8766),)


@implementer(ISeedSource)
class Source:
    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked = 0

    def find_seeds(self) -> Deferred[Sequence[Endpoint]]:
        self.asked += 1
        answer = self.answers.pop(0)
        return answer if isinstance(answer, Deferred) else succeed(answer)


def test_polling_slows_down_after_a_success() -> None:
    clock, found = Clock(), list[Any]()
    source = Source((), fail(NotConnected("no answer")), SOMEBODY, SOMEBODY)
    SeedPoller(source, clock, found.append).start()
    assert found == [()]
    clock.advance(SHORTEST_PERIOD)
    assert (source.asked, found) == (2, [()])
    clock.advance(SHORTEST_PERIOD)
    assert found == [(), SOMEBODY]
    clock.advance(PERIOD - 1)
    assert source.asked == 3
    clock.advance(1)
    assert source.asked == 4


def test_empty_polls_back_off() -> None:
    clock, source = Clock(), Source(*[()] * 100)
    SeedPoller(source, clock, lambda _: None).start()
    clock.pump([1.0] * 600)
    assert 20 < source.asked < 30
    before = source.asked
    clock.pump([1.0] * int(PERIOD))
    assert source.asked == before + 1


def test_stop_cancels_an_open_poll_or_the_next_one() -> None:
    clock = Clock()
    cancelled: list[Any] = []
    silent: Deferred[Any] = Deferred(cancelled.append)
    asking = SeedPoller(Source(silent), clock, lambda _: None)
    asking.start()
    asking.stop()
    assert cancelled == [silent]
    between = SeedPoller(Source(SOMEBODY), clock, lambda _: None)
    between.start()
    between.stop()
    assert clock.getDelayedCalls() == []
