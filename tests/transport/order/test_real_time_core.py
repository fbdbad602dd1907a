"""Real time and hybrid (L4, L5): stamps of site clocks, and the lower of both delays."""

from __future__ import annotations

import pytest

from broker.transport.order import Instant
from broker.transport.order.effects import LATE
from broker.transport.order.instant import MICROSECONDS
from broker.transport.order.negotiation import NEGOTIATION
from tests.transport.order.group import SETTINGS, Group


def test_real_time_delivers_delta_after_the_stamp() -> None:
    group = Group("real-time", "ab")
    group.send("a", "x")
    group.settle()
    for core in group.cores.values():
        assert core.next_timeout() == pytest.approx(group.now + SETTINGS.delta)
    group.advance(SETTINGS.delta - 0.001)
    assert group.texts("b") == []
    group.advance(0.002)
    assert group.texts("a") == group.texts("b") == ["x"]


def test_a_clock_that_stands_still_delays_the_delivery() -> None:
    group = Group("real-time", "a")
    group.send("a", "x")
    start = group.at.site_clock
    slow = Instant(group.now + SETTINGS.delta, start)
    group.apply("a", group.cores["a"].handle_timeout(slow))
    assert group.texts("a") == []
    assert group.cores["a"].next_timeout() == pytest.approx(slow.now + SETTINGS.delta)


def test_stamps_of_one_site_rise_within_one_reading_of_the_clock() -> None:
    group = Group("real-time", "a")
    group.send("a", "x", "y")
    group.advance(1.0)
    one, other = (each.stamp.time for each in group.delivered["a"])
    assert other == one + 1


@pytest.mark.parametrize("variant", ["real-time", "hybrid"])
def test_a_message_that_is_slower_than_delta_makes_its_sender_suspected(variant: str) -> None:
    group = Group(variant)
    group.advance(0.01)
    group.send("b", "slow")
    group.advance_without_packets(0.01)
    group.send("c", "quick")
    group.move("c", "a")
    group.advance_without_packets(2 * SETTINGS.delta)
    assert group.texts("a") == ["quick"]
    group.move("b", "a")
    assert group.texts("a") == ["quick", "!slow"]
    assert [(site, each.site, each.reason) for site, each in group.suspected] == [("a", "b", LATE)]


def test_a_slow_message_with_the_lowest_stamp_is_in_time() -> None:
    group = Group("real-time", "ab")
    group.send("b", "slow")
    group.advance_without_packets(2 * SETTINGS.delta)
    group.move("b", "a")
    assert group.texts("a") == ["slow"]
    assert group.suspected == []


def test_hybrid_delivers_by_clocks_before_delta() -> None:
    group = Group("hybrid", "ab")
    group.send("a", "x")
    group.settle()
    group.advance(SETTINGS.clock_delay + 0.001)
    assert group.texts("a") == group.texts("b") == ["x"]


def test_hybrid_delivers_by_delta_without_clocks() -> None:
    group = Group("hybrid", "ab")
    group.send("a", "x")
    group.advance_without_packets(SETTINGS.delta - 0.001)
    assert group.texts("a") == []
    group.advance_without_packets(0.002)
    assert group.texts("a") == ["x"]


def test_a_hybrid_clock_follows_a_stamp_ahead_of_the_site_clock() -> None:
    group = Group("hybrid", "ab")
    ahead = group.at._replace(site_clock=group.at.site_clock + MICROSECONDS)
    group.cores["a"].stamp(1, ahead)
    group.apply("a", group.cores["a"].release([b"x"], ahead))
    group.settle()
    group.send("b", "y")
    group.settle()
    group.advance(2 * SETTINGS.clock_delay)
    assert group.texts("a") == group.texts("b") == ["x", "y"]


def test_a_hybrid_site_connects_over_a_link_with_a_round_trip_beyond_delta() -> None:
    group = Group("hybrid", "ab", connected=False)
    core, one_way = group.cores["a"], 0.8 * SETTINGS.delta
    offer = core.offer_clock("b", group.at)
    group.advance_without_packets(one_way)
    answer = group.cores["b"].answer_clock("a", offer, group.at)
    assert answer is not None
    group.advance_without_packets(one_way)
    group.send("a", "x")
    assert group.texts("a") == []
    assert core.connect("b", answer, group.at) is not None
    group.advance(SETTINGS.delta)
    assert group.texts("a") == ["x"]


def test_an_offer_without_answer_holds_back_clocks_for_a_while_only() -> None:
    group = Group("hybrid", "ab", connected=False)
    group.cores["a"].offer_clock("b", group.at)
    group.advance_without_packets(NEGOTIATION)
    group.send("a", "x")
    assert group.texts("a") == ["x"]
