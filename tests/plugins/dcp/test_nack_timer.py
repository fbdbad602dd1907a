"""The times of requests for one missing range."""

from __future__ import annotations

from collections.abc import Hashable

import pytest
from pytest import approx

from plugins.dcp.nack_timer import NackSettings, NackTimer
from plugins.dcp.parent_path import ParentPath


def make_timer(
    *paths: ParentPath, settings: NackSettings | None = None, certain_at: float | None = None
) -> NackTimer:
    """Return a timer that runs since 1.0."""
    parents: dict[Hashable, ParentPath] = dict(enumerate(paths))
    timer = NackTimer(parents, settings or NackSettings())
    timer.start(1.0, 1.0)
    if certain_at is not None:
        timer.set_certain(certain_at)
    return timer


def make_path(*, trip: float = 0.0, skew: float = 0.0, reordering: float = 0.0) -> ParentPath:
    """Return a path with a sample of each time that is not 0."""
    path = ParentPath()
    if trip:
        path.round_trip.add_sample(trip, 0.0)
    if skew:
        path.skew.add_sample(skew)
    if reordering:
        path.reordering.add_sample(reordering)
    return path


def requests_until(timer: NackTimer, end: float) -> list[float]:
    found = []
    while (due := timer.next_timeout()) is not None and due <= end and due < timer.given_up_at:
        assert not timer.take_due(due - 1e-6)
        assert timer.take_due(due)
        found.append(due)
    return found


def test_a_timer_that_does_not_run() -> None:
    timer = NackTimer({}, NackSettings())
    assert not timer.is_running and timer.next_timeout() is None
    timer.start(1.0, 1.0)
    assert timer.is_running and timer.given_up_at == 3.0
    timer.stop()
    assert not timer.is_running and timer.next_timeout() is None


def test_an_uncertain_range_is_requested_slowly() -> None:
    assert make_timer(ParentPath()).next_timeout() == approx(1.05)
    assert make_timer().next_timeout() == approx(1.05)


def test_a_certain_range_is_requested_fast() -> None:
    timer = make_timer(ParentPath(), certain_at=1.01)
    assert timer.next_timeout() == approx(1.015)
    timer.set_certain(1.012)
    assert timer.next_timeout() == approx(1.015)


def test_the_slow_delay_counts_although_the_range_became_certain_late() -> None:
    assert make_timer(ParentPath(), certain_at=1.049).next_timeout() == approx(1.05)


@pytest.mark.parametrize(
    ("path", "delay"),
    [
        # Smoothed time and 4 times its variation.
        (make_path(trip=0.04), 0.12),
        (make_path(skew=0.05), 0.15),
        (make_path(skew=0.001), 0.05),
        # A quarter of the patience.
        (make_path(trip=1.0), 0.5),
        (make_path(skew=60.0), 0.5),
    ],
)
def test_the_slow_delay_follows_the_slowest_parent(path: ParentPath, delay: float) -> None:
    assert make_timer(ParentPath(), path).next_timeout() == approx(1.0 + delay)
    assert make_timer(path, ParentPath()).next_timeout() == approx(1.0 + delay)


def test_the_slow_delay_follows_the_gaps_of_the_sequence() -> None:
    timer = make_timer(ParentPath())
    timer.gap.add_sample(0.1)
    assert timer.next_timeout() == approx(1.2)


def test_the_fast_delay_follows_the_reordering() -> None:
    paths = make_path(reordering=0.01), make_path(reordering=0.002)
    assert make_timer(*paths, certain_at=1.0).next_timeout() == approx(1.04)
    assert make_timer(*paths[1:], certain_at=1.0).next_timeout() == approx(1.008)


def test_fixed_delays_replace_the_measured_ones() -> None:
    path = make_path(trip=0.5, skew=0.5, reordering=0.5)
    settings = NackSettings(fixed_fast=0.1, fixed_slow=0.3)
    assert make_timer(path, settings=settings).next_timeout() == approx(1.3)
    timer = make_timer(path, settings=settings, certain_at=1.15)
    assert timer.next_timeout() == approx(1.25)


def test_least_delays() -> None:
    settings = NackSettings(least_fast=0.02, least_slow=0.2)
    assert make_timer(ParentPath(), settings=settings).next_timeout() == approx(1.2)
    timer = make_timer(ParentPath(), settings=settings, certain_at=1.0)
    assert timer.next_timeout() == approx(1.02)


def test_intervals_double_from_the_time_of_an_answer_on_up_to_a_second() -> None:
    settings = NackSettings(patience=1e6)
    timer = make_timer(make_path(trip=0.04), settings=settings, certain_at=1.0)
    times = requests_until(timer, 4.0)
    intervals = [b - a for a, b in zip([1.0, *times], times, strict=False)]
    assert intervals == approx([0.005, 0.12, 0.24, 0.48, 0.96, 1.0])


def test_no_request_is_due_at_the_end_of_the_patience() -> None:
    timer = make_timer(make_path(trip=0.04), certain_at=1.0)
    times = requests_until(timer, 99.0)
    assert times == approx([1.005, 1.125, 1.365, 1.615, 1.865, 2.115, 2.365, 2.615, 2.865])
    assert timer.next_timeout() == timer.given_up_at == 3.0


def test_a_quick_parent_is_asked_ten_times_before_the_patience_ends() -> None:
    """With 10% loss, six requests and their answers are lost once in 20,000 times."""
    timer = make_timer(make_path(trip=0.02), certain_at=1.0)
    assert len(requests_until(timer, 99.0)) == 10


def test_a_request_is_not_repeated_before_its_answer() -> None:
    timer = make_timer(make_path(trip=0.2), certain_at=1.0)
    assert requests_until(timer, 99.0) == approx([1.005, 1.605, 2.205, 2.805])


def test_another_missing_range_begins_anew() -> None:
    timer = make_timer(make_path(trip=0.04), certain_at=1.0)
    requests_until(timer, 1.9)
    timer.start(2.0, 2.0)
    assert timer.given_up_at == 4.0
    assert timer.next_timeout() == approx(2.12)
    timer.set_certain(2.0)
    assert requests_until(timer, 2.13) == approx([2.005, 2.125])
