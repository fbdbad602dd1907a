from __future__ import annotations

import pytest

from broker.cluster.joining import LONGEST_BACKOFF
from broker.testing.simulated_network import NetworkWorld


@pytest.mark.parametrize("away", [0.5, 3.0, 10.0])
@pytest.mark.parametrize("seed", range(2))
def test_restarted_seed_is_linked_within_the_longest_backoff(seed: int, away: float) -> None:
    """The seed itself has no seeds."""
    with NetworkWorld(seed) as world:
        world.add("a", "c")
        world.add("b", "c", join=["a"])
        world.run(5.0)
        assert world.are_linked("a", "b")
        world.kill("a")
        world.run(away)
        world.start("a")
        world.run(LONGEST_BACKOFF)
        assert world.are_linked("a", "b")


@pytest.mark.parametrize("seed", range(3))
def test_broken_connection_is_restored_within_suspect(seed: int) -> None:
    """p2p resumes within `network.suspect`, as docs/architecture.md says."""
    with NetworkWorld(seed) as world:
        world.add("a", "one", suspect=5.0)
        world.add("b", "two", gateways=["a"], suspect=5.0)
        world.run(5.0)
        links = [world.network_of(name).neighbours.get(other) for name, other in ("ab", "ba")]
        world.cut("a", "b")
        world.run(8.0)
        assert world.are_linked("a", "b")
        # A link that went down would be a new object.
        links_after = [world.network_of(name).neighbours.get(other) for name, other in ("ab", "ba")]
        assert all(one is other for one, other in zip(links, links_after, strict=True))
        assert all(each is not None and each.reconnections for each in links_after)
