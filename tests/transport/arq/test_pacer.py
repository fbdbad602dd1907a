from __future__ import annotations

from collections import deque

import pytest

from broker.transport.arq import ArqSettings
from broker.transport.arq.pacer import Pacer
from broker.transport.arq.round_trip import RoundTrip

SETTINGS = ArqSettings()


def rounds(pace: Pacer, count: int, loss: float, round_trip: float = 0.01) -> None:
    """Simulate rounds with more packets than tokens; losses are known a round trip later."""
    now = pace._filled_at
    under_way: deque[tuple[float, int]] = deque()
    sent = came = 0
    lost = 0.0
    while count:
        while pace.may_send(now):
            pace.record_sent(1400)
            sent += 1
            under_way.append((now, sent))
        now = pace.next_send_at()
        while under_way and under_way[0][0] <= now - round_trip:
            at, number = under_way.popleft()
            lost += loss
            if lost >= 1.0:
                lost -= 1.0
                continue
            came += 1
            judged = pace._was_limited
            pace.record_delivery(at, number, came, round_trip, 0.01, now)
            count -= judged and not pace._was_limited
            if not count:
                break


def test_the_rate_is_kept() -> None:
    pace = Pacer(SETTINGS, 0.0)
    now, sent = 0.0, 0
    while now < 10.0:
        while pace.may_send(now):
            pace.record_sent(1400)
            sent += 1400
        now = pace.next_send_at()
    assert sent == pytest.approx(SETTINGS.start_rate * 10.0, rel=0.01)


def test_it_grows_to_its_bound_on_a_free_path() -> None:
    pace = Pacer(SETTINGS, 0.0)
    rounds(pace, 10, 0.0)
    assert pace.rate == SETTINGS.most_rate


def test_it_does_not_grow_without_demand() -> None:
    pace = Pacer(SETTINGS, 0.0)
    for step in range(1000):
        now = step * 0.01
        assert pace.may_send(now)
        pace.record_sent(1400)
        pace.record_delivery(now - 0.01, step, step, 0.01, 0.01, now)
    assert pace.rate == SETTINGS.start_rate


def test_a_queue_on_the_path_makes_it_fall_to_its_bound() -> None:
    pace = Pacer(SETTINGS, 0.0)
    rounds(pace, 30, 0.0, round_trip=0.2)
    assert pace.rate == SETTINGS.least_rate


def test_loss_that_less_speed_makes_less_is_heeded_and_loss_that_stays_is_not() -> None:
    pace = Pacer(SETTINGS, 0.0)
    capacity = 2e6
    for _ in range(40):
        rounds(pace, 1, max(0.0, 1 - capacity / pace.rate))
    assert pace.rate < 2 * capacity
    pace = Pacer(SETTINGS, 0.0)
    rounds(pace, 40, 0.45)
    assert pace.rate > SETTINGS.start_rate


def test_a_round_trip_is_smoothed_and_bounds_the_timeout() -> None:
    round_trip = RoundTrip()
    assert round_trip.timeout(0.0) == 0.25
    for step in range(100):
        round_trip.add_sample(0.1, step * 0.1)
    assert round_trip.smoothed == pytest.approx(0.1)
    assert round_trip.timeout(0.01) == pytest.approx(0.11, rel=0.01)
    for step in range(100, 400):
        round_trip.add_sample(30.0, step * 0.1)
    assert round_trip.timeout(0.0) == 2.0
    assert round_trip.shortest == 30.0
