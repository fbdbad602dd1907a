"""Nodes that are behind with their work let in nobody new, and name others instead (M7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.task import Clock

from broker.cluster.relay_ingest import MOST_WAITING_BYTES
from broker.cluster.timer_lag import PROBE_DELAY, TimerLag
from broker.testing.simulated_network import NetworkWorld, link_address
from tests.simulation.network.test_joining import clusters

Trouble = Callable[[NetworkWorld, str], None]


class LateClock:
    """A clock whose timers fire a second late."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def seconds(self) -> float:
        return float(self._clock.seconds())

    def callLater(self, delay: float, call: Callable[..., Any], *said: Any) -> Any:
        return self._clock.callLater(delay + 1.0, call, *said)


def much_waits(world: NetworkWorld, name: str) -> None:
    """Over half of the room for events of others is taken."""
    world.network_of(name).driver.relay_ingest.waiting_bytes = MOST_WAITING_BYTES // 2 + 1


def late_timers(world: NetworkWorld, name: str) -> None:
    """The machine has more to do than it gets done."""
    network = world.network_of(name)
    network.timer_lag._clock = LateClock(world.clock)
    world.run(10.0)
    assert network.timer_lag.is_slow and network.membership._meshing.is_slow


@pytest.mark.parametrize("trouble", [much_waits, late_timers])
def test_a_node_that_is_behind_names_another_member(trouble: Trouble) -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.add("b", join=["a"])
        world.run(3.0)
        trouble(world, "a")
        world.network.refuse(link_address("b", "new"))
        world.add("new", join=["a"])
        world.run(5.0)
        assert world.network_of("new").state is None
        world.heal("b", "new")
        world.run(10.0)
        assert clusters(world) == {("c",): {"a", "b", "new"}}
        # The newcomer is a member now: it is not cut off from the slow one.
        world.run(10.0)
        assert world.are_linked("a", "new") and world.are_linked("b", "new")


def test_alone_in_its_cluster_a_node_lets_others_in_when_it_has_caught_up() -> None:
    with NetworkWorld(1) as world:
        world.add("a", "c")
        world.run(1.0)
        much_waits(world, "a")
        world.add("new", join=["a"])
        world.run(10.0)
        assert world.network_of("new").state is None
        world.network_of("a").driver.relay_ingest.waiting_bytes = 0
        world.run(40.0)
        assert clusters(world) == {("c",): {"a", "new"}}


def test_a_machine_is_slow_by_the_lateness_of_its_timers() -> None:
    clock = Clock()
    lateness = TimerLag(clock)
    assert not lateness.is_slow

    def seconds(count: int, late: float) -> None:
        for _ in range(count):
            lateness.start_probe()
            lateness.start_probe()
            clock.advance(PROBE_DELAY + late)
            clock.advance(1.0)

    seconds(5, 0.0)
    assert (lateness.average, lateness.is_slow) == (0.0, False)
    seconds(1, 1.0)
    assert not lateness.is_slow, "one hiccup"
    seconds(3, 1.0)
    assert lateness.is_slow
    seconds(4, 0.0)
    assert lateness.average > 0.1 and lateness.is_slow
    seconds(6, 0.0)
    assert not lateness.is_slow
