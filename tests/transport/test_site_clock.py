"""The site clock follows the wall clock, and never steps back."""

from __future__ import annotations

from broker.transport.site_clock import MICROSECONDS, SiteClock


class Wall:
    def __init__(self) -> None:
        self.ms = 1_000_000

    def __call__(self) -> int:
        return self.ms


def test_it_shows_the_wall_clock_and_goes_on_between_its_readings() -> None:
    wall = Wall()
    clock = SiteClock(wall)
    assert clock.read(5.0) == 1_000 * MICROSECONDS
    assert clock.read(5.000_25) == 1_000 * MICROSECONDS + 250


def test_it_follows_a_step_forward() -> None:
    wall = Wall()
    clock = SiteClock(wall)
    clock.read(0.0)
    wall.ms += 60_000
    assert clock.read(20.0) == 1_060 * MICROSECONDS


def test_after_a_step_back_it_goes_slower_until_the_wall_clock_has_caught_up() -> None:
    wall = Wall()
    clock = SiteClock(wall)
    start = clock.read(0.0)
    times = [start]
    for second in range(1, 200):
        wall.ms = 1_000_000 + second * 1_000 - 5_000
        times.append(clock.read(float(second)))
    assert times == sorted(times)
    assert times[20] > start + 10 * MICROSECONDS, "it goes on"
    assert times[-1] == wall.ms * 1_000
