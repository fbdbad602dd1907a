"""Intervals of keep-alives, and the end of a silent connection."""

from __future__ import annotations

import pytest
from pytest import approx

from plugins.dcp.liveness import Liveness
from plugins.dcp.settings import DcpSettings

SETTINGS = DcpSettings(least_keepalive=0.25, most_keepalive=5.0)


def next_interval(
    liveness: Liveness, now: float, *, is_waiting: bool = False, is_answered: bool = True
) -> float:
    return liveness.next_interval(now, is_waiting=is_waiting, is_answered=is_answered)


def intervals_of(liveness: Liveness, now: float, count: int, *, gap: float) -> list[float]:
    """Return the intervals while events come in a pace."""
    found, data_at = [], now
    for _ in range(count):
        now = liveness.due_at
        while data_at + gap <= now:
            data_at += gap
            liveness.record_data(data_at)
        found.append(next_interval(liveness, now))
    return found


def with_loss(loss: float) -> Liveness:
    """Return one that has measured a loss."""
    liveness = Liveness(SETTINGS, 0.0)
    for number in range(1, 101):
        sent = 10**9 * number
        liveness.record_keepalive(1.0, sent, round(sent * (1 - loss)))
    assert liveness.loss == approx(max(loss, 0.01))
    return liveness


def silence_of(liveness: Liveness, interval: float) -> float:
    """Return the silence after which a peer with an interval is given up."""
    # One packet more than `with_loss` has measured.
    liveness.record_keepalive(interval, 10**11 + 1, 10**11)
    liveness.record_received(100.0)
    return liveness.given_up_at - 100.0


# ------------------------------------------------------------------ interval


def test_the_first_keepalive_is_due_at_once() -> None:
    assert Liveness(SETTINGS, 7.0).due_at == 7.0


def test_the_interval_of_a_quick_stream_is_the_least_one() -> None:
    assert intervals_of(Liveness(SETTINGS, 0.0), 0.0, 20, gap=0.01) == [0.25] * 20


def test_the_interval_follows_the_gaps_of_a_slower_stream() -> None:
    intervals = intervals_of(Liveness(SETTINGS, 0.0), 0.0, 60, gap=0.2)
    assert intervals[-1] == approx(0.8, rel=0.2)


def test_the_interval_of_a_pausing_stream_grows_up_to_the_most() -> None:
    intervals = intervals_of(Liveness(SETTINGS, 0.0), 0.0, 40, gap=1_000.0)
    assert intervals == sorted(intervals) and intervals[-1] == 5.0
    assert intervals[0] <= 0.5


@pytest.mark.parametrize("gap", [0.001, 0.05, 0.3, 2.0, 60.0])
def test_the_interval_at_most_doubles_and_keeps_its_bounds(gap: float) -> None:
    intervals = intervals_of(Liveness(SETTINGS, 0.0), 0.0, 60, gap=gap)
    assert all(0.25 <= each <= 5.0 for each in intervals)
    assert all(b <= 2 * a for a, b in zip([0.25, *intervals], intervals, strict=False))


def test_the_interval_grows_only_if_the_last_keepalive_is_answered() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    for now in (10.0, 20.0, 30.0):
        assert next_interval(liveness, now, is_answered=False) == 0.25
    assert next_interval(liveness, 40.0) == 0.5
    assert next_interval(liveness, 50.0, is_answered=False) == 0.5
    assert next_interval(liveness, 60.0) == 1.0


def test_the_interval_shrinks_without_an_answer() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    assert intervals_of(liveness, 0.0, 20, gap=1_000.0)[-1] == 5.0
    now = liveness.due_at
    for number in range(500):
        liveness.record_data(now + number / 100)
    assert next_interval(liveness, now + 5.0, is_answered=False) == 0.25


def test_the_next_keepalive_is_due_after_the_interval() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    interval = next_interval(liveness, 10.0)
    assert liveness.due_at == 10.0 + interval


def test_it_is_due_earlier_while_control_messages_are_not_acknowledged() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    interval = next_interval(liveness, 10.0, is_waiting=True)
    assert interval == 0.5
    assert liveness.due_at == approx(10.1)


def test_a_keepalive_is_hastened_to_a_time_after_the_last_one() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    intervals_of(liveness, 0.0, 20, gap=1_000.0)
    begin, due_at = liveness.sent_at, liveness.due_at
    assert due_at == approx(begin + 5.0)
    liveness.hasten(9.0)
    assert liveness.due_at == due_at
    liveness.hasten(0.5)
    liveness.hasten(0.7)
    assert liveness.due_at == approx(begin + 0.5)


# ------------------------------------------------------------------ loss


def test_loss_is_measured_from_the_first_keepalive_on() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    assert liveness.loss == approx(0.1)
    liveness.record_keepalive(1.0, 10, 7)
    # As if one of 10 earlier packets had been lost.
    assert liveness.loss == approx(4 / 20)
    liveness.record_keepalive(1.0, 30, 27)
    # Older packets count less by now.
    assert liveness.loss == approx((3 * (1 - 20 / 500) + 1) / (10 * (1 - 20 / 500) + 20 + 10))


def test_loss_follows_the_newest_packets() -> None:
    liveness, sent, received = Liveness(SETTINGS, 0.0), 0, 0
    for percent in (0, 60, 20):
        for _ in range(100):
            sent, received = sent + 100, received + 100 - percent
            liveness.record_keepalive(1.0, sent, received)
        assert liveness.loss == approx(max(percent / 100, 0.01), abs=0.01)


def test_a_keepalive_that_comes_late_does_not_count() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    liveness.record_keepalive(1.0, 100, 80)
    loss = liveness.loss
    liveness.record_keepalive(1.0, 50, 81)
    liveness.record_keepalive(1.0, 100, 82)
    assert liveness.loss == loss
    liveness.record_keepalive(1.0, 200, 180)
    assert liveness.loss < loss


def test_the_interval_of_a_replayed_keepalive_does_not_count() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    liveness.record_keepalive(0.25, 100, 100)
    liveness.record_keepalive(5.0, 200, 200)
    given_up_at = liveness.given_up_at
    for sent in (0, 100, 200):
        liveness.record_keepalive(0.01, sent, 200)
    assert liveness.given_up_at == given_up_at


def test_loss_is_between_0_and_most() -> None:
    liveness = Liveness(SETTINGS, 0.0)
    for number in range(1, 100):
        # Repeated packets: more come than were sent.
        liveness.record_keepalive(1.0, 100 * number, 300 * number)
        assert 0.0 <= liveness.loss <= 0.2
    deaf = Liveness(SETTINGS, 0.0)
    for number in range(1, 100):
        deaf.record_keepalive(1.0, 100 * number, 0)
    assert deaf.loss == approx(0.9)


@pytest.mark.parametrize(
    ("loss", "interval", "count"),
    # One false end a day: loss ** count <= interval / 86,400; loss is at least 0.01.
    [
        *((0.0, 1.0, 3), (0.0, 0.25, 3), (0.0, 0.01, 4), (0.0, 5.0, 3)),
        *((0.2, 1.0, 8), (0.2, 0.25, 8), (0.2, 5.0, 7), (0.5, 1.0, 17)),
    ],
)
def test_the_packets_that_are_lost_in_a_row(loss: float, interval: float, count: int) -> None:
    assert with_loss(loss).most_lost(interval) == count
    share = max(loss, 0.01)
    assert share**count <= interval / 86_400 < share ** (count - 1)


def test_the_packets_that_are_lost_in_a_row_are_bounded() -> None:
    liveness = with_loss(0.9)
    # The loss alone leads to log(86,400) / -log(0.9) = 107.9.
    assert liveness.most_lost(1.0) == liveness.most_lost(0.25, both_ways=True) == 60
    assert silence_of(liveness, 1.0) == approx(60.0)


def test_more_are_lost_with_their_answers() -> None:
    liveness = with_loss(0.2)
    # Of the answers as many are lost.
    liveness.record_answer(10_000, 8_000)
    # 1 - 0.8 ** 2 = 0.36: log(86,400) / -log(0.36) = 11.1.
    assert liveness.most_lost(1.0, both_ways=True) == 12


# ------------------------------------------------------------------ silence


@pytest.mark.parametrize(
    ("loss", "interval", "silence"),
    [
        *((0.0, 0.25, 2.0), (0.0, 1.0, 3.0), (0.0, 5.0, 15.0)),
        *((0.2, 0.25, 2.0), (0.2, 1.0, 8.0), (0.2, 5.0, 35.0)),
    ],
)
def test_a_peer_is_given_up_after_a_silence(loss: float, interval: float, silence: float) -> None:
    assert silence_of(with_loss(loss), interval) == approx(silence)


def test_a_new_connection_expects_loss_and_an_interval_of_a_second() -> None:
    # One packet in 10 is lost: log(86,400) / -log(0.1) = 4.9.
    assert Liveness(SETTINGS, 50.0).given_up_at == approx(55.0)


def test_each_packet_ends_the_silence() -> None:
    liveness = with_loss(0.0)
    for now in (1.0, 2.5, 100.0):
        liveness.record_received(now)
        assert liveness.given_up_at == approx(now + 3.0)


def test_the_interval_of_a_peer_is_bounded() -> None:
    assert silence_of(with_loss(0.0), 1e9) == silence_of(with_loss(0.0), 60.0) == approx(180.0)
    # A busy process may stall for so long.
    for interval in (-5.0, 0.0, 0.001):
        assert silence_of(with_loss(0.0), interval) == approx(2.0)
