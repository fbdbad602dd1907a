"""Stream times between nodes: questions, answers, and what counts of them."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.correspondence import Correspondence
from broker.cluster.stream_times import (
    GATHERING,
    MOST_ANSWERS,
    MOST_ORIGINS,
    AskTime,
    StreamTimes,
    TellTime,
)
from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.log.coverage import Coverage
from broker.log.event_log import EventLog
from broker.wire.codec import WireTimes

OWN, OTHER, THIRD = (Address(("c",), name) for name in ("own", "other", "third"))
NOW = 1_000_000


class Post:
    """The network: writes down what is sent."""

    own = OWN

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.listeners: dict[type, Callable[[Any], None]] = {}

    def hear(self, kind: type, listener: Callable[[Any], None]) -> None:
        self.listeners[kind] = listener

    def say(self, message: Any) -> None:
        self.sent.append(message)

    def homes(self, origin: str) -> list[Address]:
        return [OTHER, THIRD] if origin == "o" else []


class Bench:
    """A node that has covered its own origin and `o`."""

    def __init__(self, **marks: Mark) -> None:
        self.post, self.clock = Post(), Clock()
        self.coverage = Coverage({"self": (1, 7), "o": (1, 10), **marks})
        self.changed: list[WireTimes] = []
        log = cast(EventLog, SimpleNamespace(origin="self", coverage=self.coverage))
        post = cast(Correspondence, self.post)
        self.times = StreamTimes(log, self.clock, lambda: NOW, post, self.changed.append)

    def tell(self, upto: Mark, time: int, source: Address = OTHER, origin: str = "o") -> None:
        self.post.listeners[TellTime](TellTime(OWN, source, 9, origin, upto, time))

    def time(self, origin: str = "o") -> int:
        return dict(self.times.times())[origin]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.times.ask()
    return made


@pytest.mark.parametrize(
    "message", [AskTime(OWN, OTHER, 9, "o"), TellTime(OWN, OTHER, 9, "o", (1, 5), NOW)]
)
def test_a_message_survives_the_wire_and_needs_version_2(message: AskTime | TellTime) -> None:
    assert messages.decode(messages.encode(message)) == message
    assert message.least_version == 2


@pytest.mark.parametrize("wrong", ["x" * 65, 5, None])
def test_an_origin_that_no_log_has_is_refused(wrong: Any) -> None:
    encoded = messages.encode(AskTime(OWN, OTHER, 9, "o"))
    with pytest.raises((TypeError, ValueError)):
        AskTime(OWN, OTHER, 9, wrong)
    with pytest.raises(ProtocolError):
        messages.decode(encoded[:-1] + b"\xc0")


def test_the_first_home_of_each_other_origin_is_asked(bench: Bench) -> None:
    (asked,) = bench.post.sent
    assert (asked.target, asked.source, asked.origin) == (OTHER, OWN, "o")


def test_the_own_stream_time_is_the_wall_clock_and_an_unknown_one_is_0(bench: Bench) -> None:
    assert dict(bench.times.times()) == {"self": NOW, "o": 0}


def test_the_answer_has_the_newest_own_mark_and_the_wall_clock(bench: Bench) -> None:
    bench.post.sent.clear()
    bench.post.listeners[AskTime](AskTime(OWN, THIRD, 9, "o"))
    assert bench.post.sent == []
    bench.post.listeners[AskTime](AskTime(OWN, THIRD, 9, "self"))
    (told,) = bench.post.sent
    assert (told.target, told.upto, told.time) == (THIRD, (1, 7), NOW)


def test_a_stream_time_counts_when_all_before_it_is_here(bench: Bench) -> None:
    bench.tell((1, 10), 500)
    assert bench.time() == 500
    bench.tell((1, 12), 600)
    assert bench.time() == 500
    bench.coverage.rise({"o": (1, 11)})
    assert bench.time() == 500
    bench.coverage.rise({"o": (1, 12)})
    assert bench.time() == 600


def test_answers_that_are_ahead_of_the_node_are_bounded(bench: Bench) -> None:
    for number in range(2 * MOST_ANSWERS):
        bench.tell((1, 20 + number), 100 + number)
    bench.coverage.rise({"o": (1, 20 + MOST_ANSWERS)})
    assert bench.time() == 100 + MOST_ANSWERS


def test_only_the_node_that_was_asked_is_believed(bench: Bench) -> None:
    bench.tell((1, 10), 500, THIRD)
    bench.tell((1, 10), 500, origin="unasked")
    assert bench.time() == 0


def test_a_clock_that_is_ahead_counts_no_further_than_the_own(bench: Bench) -> None:
    bench.tell((1, 10), NOW + 3_600_000)
    assert bench.time() == NOW


def test_answers_that_come_together_are_passed_on_once(bench: Bench) -> None:
    bench.tell((1, 10), 500)
    bench.tell((1, 10), 501)
    assert bench.changed == []
    bench.clock.advance(GATHERING)
    assert [dict(times)["o"] for times in bench.changed] == [501]


def test_nothing_is_remembered_when_nobody_merges(bench: Bench) -> None:
    bench.tell((1, 10), 500)
    bench.times.stop()
    assert not bench.clock.getDelayedCalls()
    bench.tell((1, 10), 501)
    assert bench.time() == 0 and not bench.clock.getDelayedCalls()


def test_further_origins_than_fit_are_named_as_unknown() -> None:
    bench = Bench(**{f"o{number}": (1, 1) for number in range(MOST_ORIGINS)})
    bench.times.ask()
    times = bench.times.times()
    assert len(times) == MOST_ORIGINS + 2 and dict(times)[""] == 0
