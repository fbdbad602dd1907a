from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.stream_time import (
    GATHER_DELAY,
    MOST_ANSWERS,
    MOST_ORIGINS,
    StreamTimes,
    TimeReply,
    TimeRequest,
)
from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.log.coverage import Coverage
from broker.log.event_log import EventLog
from broker.log.known_flows import KnownFlows
from broker.log.withheld_flows import WithheldFlows
from broker.wire.codec import WireTimes

OWN, OTHER, THIRD = (Address(("c",), name) for name in ("own", "other", "third"))
NOW = 1_000_000


class FakeMessenger:
    own_address = OWN

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.listeners: dict[type, Callable[[Any], None]] = {}

    def add_listener(self, kind: type, listener: Callable[[Any], None]) -> None:
        self.listeners[kind] = listener

    def send(self, message: Any) -> None:
        self.sent.append(message)

    def find_sources(self, origin: str) -> list[Address]:
        return [OTHER, THIRD] if origin == "o" else []


class Bench:
    """A node with events of its own origin and of `o`."""

    def __init__(self, **marks: Mark) -> None:
        self.messenger, self.clock = FakeMessenger(), Clock()
        self.coverage = Coverage({"self": (1, 7), "o": (1, 10), **marks})
        self.changed: list[WireTimes] = []
        flows = KnownFlows("self", {"self/s": (((1, 0), None),)} if "self/s" in marks else {})
        self.log = SimpleNamespace(origin="self", coverage=self.coverage, flows=flows)
        log = cast(EventLog, self.log)
        messenger = cast(NodeMessenger, self.messenger)
        self.times = StreamTimes(log, self.clock, lambda: NOW, messenger, self.changed.append)

    def reply(self, upto: Mark, time: int, source: Address = OTHER, origin: str = "o") -> None:
        self.messenger.listeners[TimeReply](TimeReply(OWN, source, 9, origin, upto, time))

    def time(self, origin: str = "o") -> int:
        return dict(self.times.times())[origin]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.times.request_times()
    return made


@pytest.mark.parametrize(
    "message", [TimeRequest(OWN, OTHER, 9, "o"), TimeReply(OWN, OTHER, 9, "o", (1, 5), NOW)]
)
def test_messages_round_trip_and_need_version_2(message: TimeRequest | TimeReply) -> None:
    assert messages.decode(messages.encode(message)) == message
    assert message.least_version == 2


@pytest.mark.parametrize("wrong", ["x" * 65, 5, None])
def test_an_impossible_origin_is_refused(wrong: Any) -> None:
    with pytest.raises(ProtocolError):
        messages.decode(messages.encode(TimeRequest(OWN, OTHER, 9, wrong)))


def test_the_first_source_of_each_other_origin_is_asked(bench: Bench) -> None:
    (asked,) = bench.messenger.sent
    assert (asked.target, asked.source, asked.origin) == (OTHER, OWN, "o")


def test_the_own_stream_time_is_the_wall_clock_and_an_unknown_one_is_0(bench: Bench) -> None:
    assert dict(bench.times.times()) == {"self": NOW, "o": 0}


def test_the_answer_has_the_newest_own_mark_and_the_wall_clock(bench: Bench) -> None:
    bench.messenger.sent.clear()
    bench.messenger.listeners[TimeRequest](TimeRequest(OWN, THIRD, 9, "o"))
    assert bench.messenger.sent == []
    bench.messenger.listeners[TimeRequest](TimeRequest(OWN, THIRD, 9, "self"))
    (told,) = bench.messenger.sent
    assert (told.target, told.upto, told.time) == (THIRD, (1, 7), NOW)


def test_a_stream_time_is_valid_when_all_earlier_events_have_arrived(bench: Bench) -> None:
    bench.reply((1, 10), 500)
    assert bench.time() == 500
    bench.reply((1, 12), 600)
    assert bench.time() == 500
    bench.coverage.advance({"o": (1, 11)})
    assert bench.time() == 500
    bench.coverage.advance({"o": (1, 12)})
    assert bench.time() == 600


def test_answers_that_are_ahead_of_the_node_are_bounded(bench: Bench) -> None:
    for number in range(2 * MOST_ANSWERS):
        bench.reply((1, 20 + number), 100 + number)
    bench.coverage.advance({"o": (1, 20 + MOST_ANSWERS)})
    assert bench.time() == 100 + MOST_ANSWERS


def test_answers_of_other_nodes_are_ignored(bench: Bench) -> None:
    bench.reply((1, 10), 500, THIRD)
    bench.reply((1, 10), 500, origin="unasked")
    assert bench.time() == 0


def test_a_clock_ahead_is_limited_by_the_own_clock(bench: Bench) -> None:
    bench.reply((1, 10), NOW + 3_600_000)
    assert bench.time() == NOW


def test_answers_are_passed_on_together(bench: Bench) -> None:
    bench.reply((1, 10), 500)
    bench.reply((1, 10), 501)
    assert bench.changed == []
    bench.clock.advance(GATHER_DELAY)
    assert [dict(times)["o"] for times in bench.changed] == [501]


def test_stop_drops_all_times(bench: Bench) -> None:
    bench.reply((1, 10), 500)
    bench.times.stop()
    assert not bench.clock.getDelayedCalls()
    bench.reply((1, 10), 501)
    assert bench.time() == 0 and not bench.clock.getDelayedCalls()


def test_origins_beyond_the_bound_are_unknown() -> None:
    bench = Bench(**{f"o{number}": (1, 1) for number in range(MOST_ORIGINS)})
    bench.times.request_times()
    times = bench.times.times()
    assert len(times) == MOST_ORIGINS + 2 and dict(times)[""] == 0


def test_each_flow_has_a_time_of_its_own() -> None:
    """Another transport may be behind with its events."""
    bench = Bench(**{"o/s": (1, 4), "self/s": (1, 7)})
    bench.messenger.find_sources = lambda origin: [OTHER]  # type: ignore[method-assign]
    bench.times.request_times()
    assert [each.origin for each in bench.messenger.sent] == ["o", "o/s"]
    bench.reply((1, 10), 500)
    bench.reply((1, 10), 500, origin="o/s")
    assert dict(bench.times.times()) == {"self": NOW, "self/s": NOW, "o": 500, "o/s": 0}
    bench.coverage.advance({"o/s": (1, 10)})
    assert dict(bench.times.times())["o/s"] == 500


def test_a_node_replies_for_its_flows_only() -> None:
    bench = Bench(**{"self/s": (1, 5)})
    for flow in ("self/s", "self/unknown", "o/s"):
        bench.messenger.listeners[TimeRequest](TimeRequest(OWN, OTHER, 9, flow))
    (reply,) = bench.messenger.sent
    assert (reply.origin, reply.upto) == ("self/s", (1, 5))


def test_the_time_of_an_own_ordered_flow_waits_for_withheld_events() -> None:
    bench = Bench(**{"self/s": (1, 5)})
    known = {"self/s": (((1, 0), None),)}
    bench.log.flows = KnownFlows("self", known, WithheldFlows(known, frozenset(known)))
    assert (bench.time("self"), bench.time("self/s")) == (NOW, 0)
    bench.coverage.advance({"self/s": (1, 7)})
    assert bench.time("self/s") == NOW
    # Other nodes do not wait for them here.
    bench.messenger.listeners[TimeRequest](TimeRequest(OWN, OTHER, 9, "self/s"))
    assert bench.messenger.sent[-1].upto == (1, 7)
