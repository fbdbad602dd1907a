"""Logical time (L2; K20): clocks of connected sites, their answers, and returns."""

from __future__ import annotations

from itertools import permutations

import pytest

from broker.transport.order import Message, MessageId, Stamp, Suspect
from broker.transport.order.effects import LATE, OVERDUE
from broker.transport.order.packet import Clock
from tests.transport.order.group import SETTINGS, Group


def test_equal_times_are_ordered_by_site() -> None:
    group = Group("logical", "ab")
    group.send("b", "from b")
    group.send("a", "from a")
    group.settle()
    group.advance(1.0)
    assert len({each.stamp.time for each in group.delivered["a"]}) == 1
    assert group.texts("a") == group.texts("b") == ["from a", "from b"]


def test_a_message_waits_for_the_clock_of_each_connected_site() -> None:
    group = Group("logical")
    group.send("a", "x")
    group.move("a", "b")
    group.send("b", "y")
    group.move("b", "a")
    assert group.texts("a") == []
    group.move("a", "c")
    group.send("c", "z")
    group.move("c", "a")
    assert group.texts("a") == ["x", "y", "z"]


def test_a_silent_site_answers_once_with_its_clock_after_the_delay() -> None:
    group = Group("logical", "ab")
    group.send("a", "x", "y")
    group.move("a", "b")
    assert group.cores["b"].next_timeout() == group.now + SETTINGS.clock_delay
    group.now += SETTINGS.clock_delay
    group.apply("b", group.cores["b"].handle_timeout(group.at))
    (clock,) = group.transit["b", "a"]
    assert isinstance(clock, Clock)
    group.settle()
    assert group.texts("a") == ["x", "y"]
    assert group.cores["a"].next_timeout() is None


def test_own_traffic_takes_the_place_of_an_answer() -> None:
    group = Group("logical", "ab")
    group.send("a", "x")
    group.move("a", "b")
    group.send("b", "y")
    group.now += SETTINGS.clock_delay
    group.apply("b", group.cores["b"].handle_timeout(group.at))
    assert [type(each) for each in group.transit["b", "a"]] == [Message]


def test_a_site_answers_also_for_a_message_that_it_did_not_get() -> None:
    group = Group("logical", connected=False)
    for one, other in ("ab", "ba", "bc", "cb"):
        group.connect(one, other)
    group.settle()
    group.advance(1.0)
    group.send("c", "x")
    group.transit["c", "a"].clear()
    group.settle()
    group.advance(4 * SETTINGS.clock_delay)
    assert group.texts("b") == ["x"]


def test_a_returning_site_holds_back_no_earlier_message() -> None:
    group = Group("logical", "abcd")
    group.isolate("d")
    group.send("a", "earlier")
    group.move("a", "b")
    assert group.texts("b") == []  # c has not answered
    assert group.connect("b", "d")
    group.move("a", "c")
    group.send("c", "answer")
    group.move("c", "b")
    assert group.texts("b")[0] == "earlier"


def test_an_answer_below_an_arrived_stamp_needs_another_offer() -> None:
    group = Group("logical", connected=False)
    assert group.connect("a", "c")
    core = group.cores["a"]
    offer = core.offer_clock("b", group.at)
    answer = group.cores["b"].answer_clock("a", offer, group.at)
    assert answer is not None
    stamp = Stamp(answer + 1, "c")
    group.receive("a", "c", Message(MessageId("c", 1, 1), b"x", frozenset(), stamp))
    assert core.connect("b", answer, group.at) is None
    assert "b" not in core.connected
    assert core.offer_clock("b", group.at) >= stamp.time
    assert group.connect("a", "b")


def test_an_answer_waits_for_stamps_below_the_offer() -> None:
    group = Group("logical", "abc", connected=False)
    assert group.connect("a", "c")
    (reserved,) = group.stamp("b")
    stamp = Stamp(1000, "c")
    group.receive("a", "c", Message(MessageId("c", 1, 1), b"x", frozenset(), stamp))
    offer = group.cores["a"].offer_clock("b", group.at)
    assert group.cores["b"].answer_clock("a", offer, group.at) is None
    (higher,) = group.stamp("b")
    group.release("b", "y")
    answer = group.cores["b"].answer_clock("a", offer, group.at)
    assert answer is not None and higher.stamp is not None
    assert offer < answer < higher.stamp.time
    assert group.cores["a"].connect("b", answer, group.at) is not None


def test_a_clock_beyond_a_reserved_stamp_is_told_after_its_release() -> None:
    group = Group("logical", "ab")
    (reserved,) = group.stamp("a")
    group.send("b", "x", "y")
    group.settle()
    group.advance(1.0)
    assert group.texts("b") == []
    group.release("a", "z")
    group.settle()
    group.advance(1.0)
    assert group.texts("a") == group.texts("b") == ["z", "x", "y"]


def test_a_site_whose_clock_does_not_come_is_suspected() -> None:
    group = Group("logical")
    group.send("a", "x")
    group.move("a", "b")
    group.advance_without_packets(1.0)
    group.send("a", "y")
    group.move("a", "b")
    group.advance_without_packets(SETTINGS.clock_patience - 1.1)
    assert group.suspected == []
    group.advance_without_packets(0.2)
    assert ("b", Suspect("c", OVERDUE)) in group.suspected
    assert group.texts("b") == ["x", "y"]


def test_no_site_is_suspected_for_an_own_commit() -> None:
    group = Group("logical", "ab")
    group.stamp("a")
    group.send("b", "x")
    group.settle()
    group.advance(3 * SETTINGS.clock_patience)
    assert [site for site, _ in group.suspected] == ["b"]
    assert group.texts("a") == []
    group.release("a", "y")
    assert group.texts("a") == ["y", "x"]


def test_a_late_message_of_a_connected_site_makes_it_suspected_first() -> None:
    group = Group("logical", "ab")
    group.send("a", "x", "y")
    group.settle()
    group.advance(1.0)
    # The stamp breaks the promise of the clock that b has announced.
    first = group.delivered["a"][0].stamp
    forged = Message(MessageId("b", 1, 1), b"z", frozenset("a"), Stamp(first.time, "b"))
    group.cores["a"]._answers["b"] = 0  # type: ignore[attr-defined]
    group.receive("a", "b", forged)
    assert [(site, each.site, each.reason) for site, each in group.suspected] == [("a", "b", LATE)]
    assert group.texts("a") == ["x", "y", "!z"]
    late = group.delivered["a"][2].late
    assert late is not None
    assert (late.before, late.after) == (MessageId("a", 1, 1), MessageId("a", 1, 2))
    assert group.cores["a"].connected == frozenset()


@pytest.mark.parametrize("sites", ["ab", "abcd"])
def test_sites_that_send_all_the_time_connect(sites: str) -> None:
    group = Group("logical", sites, connected=False)
    pairs = list(permutations(sites, 2))
    for _ in range(10):
        offers = {
            (one, other): group.cores[one].offer_clock(other, group.at)
            for one, other in pairs
            if other not in group.cores[one].connected
        }
        answers = {
            (one, other): group.cores[other].answer_clock(one, offer, group.at)
            for (one, other), offer in offers.items()
        }
        for _ in range(50):
            for site in sites:
                group.send(site, "x")
        for (one, other), answer in answers.items():
            if answer is not None:
                group.apply(one, group.cores[one].connect(other, answer, group.at) or ())
        group.now += 0.1
    assert all(other in group.cores[one].connected for one, other in pairs)
    assert group.failures == []
