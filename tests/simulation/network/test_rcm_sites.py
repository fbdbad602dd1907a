"""Sites that join and leave a running group, in virtual time (R6)."""

from __future__ import annotations

import pytest

from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from tests.simulation.network.rcm_group import SiteGroup

VARIANTS = ("logical", "sequencer", "real-time", "hybrid")


@pytest.mark.parametrize("order", VARIANTS)
def test_an_admitted_site_gets_the_transcript_and_lives_in_the_order(order: str) -> None:
    with deterministic(3), NetworkWorld(3) as world:
        group = SiteGroup(world, order, 3)
        group.network.publish(5)
        group.add_newcomer("n3", "n0")
        world.run(10.0)
        assert group.statuses("n3") == {"n0": "disconnected"}
        assert set(group.admit("n0", "n3")["sites"]) == {"n0", "n1", "n2", "n3"}
        group.wait_until_connected("n0", "n1", "n2", "n3")
        group.network.add_publisher("n3")
        group.network.publish(5)
        logs = group.settle(["n0", "n1", "n2", "n3"])
        history = [entry for entry in logs["n3"] if entry.is_recovered]
        assert len(history) >= 15
        first = logs["n0"][len(history) :]
        assert [entry.id for entry in logs["n3"][len(history) :]] == [each.id for each in first]
        assert not any(entry.is_late or entry.is_recovered for entry in first)
