"""Connections that break, and links that do not."""

from __future__ import annotations

import pytest

from broker.cluster.joining import LONGEST_BACKOFF
from broker.testing.simulated_network import NetworkWorld


@pytest.mark.parametrize("away", [0.5, 3.0, 10.0])
@pytest.mark.parametrize("seed", range(2))
def test_a_seed_that_is_started_again_is_linked_soon(seed: int, away: float) -> None:
    """Members by configuration; the seed has no seeds itself."""
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(5.0)
        assert world.are_linked("a", "b")
        world.kill("a")
        world.run(away)
        world.start("a")
        # Chance decides how long the rests are.
        world.run(LONGEST_BACKOFF)
        assert world.are_linked("a", "b")


@pytest.mark.parametrize("seed", range(3))
def test_a_connection_that_broke_comes_again_within_suspect(seed: int) -> None:
    """As architecture.md says: p2p resumes within network.suspect."""
    with NetworkWorld(seed) as world:
        world.add("a", "one", suspect=5.0)
        world.add("b", "two", gateways=["a"], suspect=5.0)
        world.run(5.0)
        links = [world.network_of(name).neighbours.get(other) for name, other in ("ab", "ba")]
        world.cut("a", "b")
        world.run(8.0)
        assert world.are_linked("a", "b")
        # A link that was down is another one.
        again = [world.network_of(name).neighbours.get(other) for name, other in ("ab", "ba")]
        assert all(one is other for one, other in zip(links, again, strict=True))
        assert all(each is not None and each.reconnections for each in again)
