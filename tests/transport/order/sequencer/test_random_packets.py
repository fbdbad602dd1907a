"""Random interleavings of packets keep the order of connected sites (L3; R16)."""

from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.transport.order.sequencer.random_packets import RandomPackets


@pytest.mark.parametrize("sites", ["abc", "abcd"])
@pytest.mark.parametrize("first", seeds(2, 100))
def test_no_message_of_a_connected_site_is_late_and_all_get_one_place(
    first: int, sites: str
) -> None:
    for seed in range(first * 20, (first + 1) * 20):
        network = RandomPackets(seed, sites)
        network.run(200)
        assert not network.violations, f"seed {seed}: {network.violations[0]}"
        for site, places in network.places.items():
            assert places.keys() == network.sent.keys(), f"seed {seed}: missing at {site}"
            assert places == network.places[sites[0]], f"seed {seed}: two places at {site}"
