"""Schedules of joins, leaves and outages of a group, in virtual time."""

from __future__ import annotations

from random import Random

import pytest

from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.rcm_group import SiteGroup, address_of

VARIANTS = ("logical", "sequencer", "real-time", "hybrid")


class Disturbance:
    """Joins and leaves of a group, and outages. `n0` stays."""

    def __init__(self, group: SiteGroup, random: Random) -> None:
        self.group = group
        self.random = random
        self.log: list[str] = []

    @property
    def working(self) -> list[str]:
        """Return running nodes that are members, as they see it."""
        group = self.group
        return [
            name
            for name in group.world.running
            if not group.error(name) and group.membership(name).is_member(name)
        ]

    def run(self, steps: int) -> None:
        group, random = self.group, self.random
        network, world = group.network, group.world
        for _ in range(steps):
            kind = random.choice(
                (
                    *("publish", "publish", "admit", "admit", "remove", "return"),
                    *("cut", "heal", "isolate", "kill"),
                )
            )
            name, other = random.sample(self.working, 2) if len(self.working) > 1 else ("n0", "n0")
            self.log.append(f"{world.clock.seconds():.1f} {kind} {name} {other}")
            match kind:
                case "publish":
                    network.publish(random.choice((1, 3)))
                case "admit" if len(world.names) < 7:
                    newcomer = f"n{len(world.names)}"
                    group.add_newcomer(newcomer, "n0", name)
                    world.run(random.choice((0.0, 4.0)))
                    if name in self.working:
                        group.change(name, "admit", newcomer, address_of(newcomer))
                    group.add_publisher(newcomer)
                case "remove" if other != "n0":
                    group.change(name, "remove", other)
                    group.remove_publisher(other)
                case "return":
                    for outside in sorted({*world.running} - {*self.working})[:1]:
                        group.change(name, "admit", outside, address_of(outside))
                case "cut":
                    network.cut_datagrams(name, other)
                case "heal":
                    world.heal_transports()
                case "isolate":
                    network.cut(name)
                    network.publish(1)
                    world.run(random.choice((0.3, 8.0, 20.0)))
                    network.heal(name)
                case "kill":
                    network.kill(name)
                    world.run(random.choice((0.0, 1.0, 8.0)))
                    world.start(name)
            world.run(random.choice((0.0, 0.1, 1.0, 6.0)))

    def settle(self) -> None:
        group, world = self.group, self.group.world
        world.heal_transports()
        world.run(30.0)
        members = list(group.membership("n0").sites.members)
        for name in set(world.names) - {*members}:
            # It left, or only a site that left had admitted it.
            group.remove_publisher(name)
        group.wait_until_connected(*members)
        lists = {group.membership(name).sites.records for name in members}
        assert len(lists) == 1
        group.settle(members)


def check_schedule(seed: int, order: str) -> None:
    with deterministic(seed), NetworkWorld(seed) as world:
        group = SiteGroup(world, order, 4)
        disturbance = Disturbance(group, Random(seed))
        try:
            disturbance.run(14)
            disturbance.settle()
        except Exception as error:
            raise AssertionError("\n".join([f"seed {seed}", *disturbance.log])) from error


def test_joins_leaves_and_outages_leave_one_list_and_one_transcript() -> None:
    check_schedule(1, "hybrid")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10, 40))
@pytest.mark.parametrize("order", VARIANTS)
def test_long_schedules_leave_one_list_and_one_transcript(order: str, seed: int) -> None:
    check_schedule(seed, order)
