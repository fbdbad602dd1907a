"""Slow nodes admit no new members and refer them to others (M7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from broker.cluster.relay_ingest import MOST_WAITING_BYTES
from broker.cluster.timer_lag import PROBE_DELAY, TimerLag
from broker.testing.simulated_network import NetworkWorld, link_address
from tests.simulation.network.test_joining import members_by_unit

Fault = Callable[[NetworkWorld, str], None]


class LateClock:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def seconds(self) -> float:
        return float(self._clock.seconds())

    def callLater(self, delay: float, call: Callable[..., Any], *args: Any) -> Any:
        return self._clock.callLater(delay + 1.0, call, *args)


def fill_buffer(world: NetworkWorld, name: str) -> None:
    world.network_of(name).driver.relay_ingest.waiting_bytes = MOST_WAITING_BYTES // 2 + 1


def delay_timers(world: NetworkWorld, name: str) -> None:
    network = world.network_of(name)
    network.timer_lag._clock = LateClock(world.clock)
    world.run(10.0)
    assert network.timer_lag.is_slow and network.membership._meshing.is_slow


@pytest.mark.parametrize("fault", [fill_buffer, delay_timers])
def test_slow_node_refers_to_another_member(fault: Fault) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.add("b", join=["a"])
        world.run(3.0)
        fault(world, "a")
        world.network.refuse(link_address("b", "new"))
        world.add("new", join=["a"])
        world.run(5.0)
        assert world.network_of("new").state is None
        world.heal("b", "new")
        world.run(10.0)
        assert members_by_unit(world) == {("c",): {"a", "b", "new"}}
        world.run(10.0)
        assert world.are_linked("a", "new") and world.are_linked("b", "new")


def test_lone_slow_node_admits_others_when_it_has_caught_up() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.run(1.0)
        fill_buffer(world, "a")
        world.add("new", join=["a"])
        world.run(10.0)
        assert world.network_of("new").state is None
        world.network_of("a").driver.relay_ingest.waiting_bytes = 0
        world.run(40.0)
        assert members_by_unit(world) == {("c",): {"a", "new"}}


def test_timer_lag_marks_a_slow_machine() -> None:
    clock = Clock()
    timer_lag = TimerLag(clock)
    assert not timer_lag.is_slow

    def seconds(count: int, late: float) -> None:
        for _ in range(count):
            timer_lag.start_probe()
            timer_lag.start_probe()
            clock.advance(PROBE_DELAY + late)
            clock.advance(1.0)

    seconds(5, 0.0)
    assert (timer_lag.average, timer_lag.is_slow) == (0.0, False)
    seconds(1, 1.0)
    assert not timer_lag.is_slow, "one hiccup"
    seconds(3, 1.0)
    assert timer_lag.is_slow
    seconds(4, 0.0)
    assert timer_lag.average > 0.1 and timer_lag.is_slow
    seconds(6, 0.0)
    assert not timer_lag.is_slow
