"""Messages that the links of sites have lost come from logs before the sites are connected."""

from __future__ import annotations

import pytest

from broker.config.stacks import StackInstance
from broker.event.order_entry import OrderEntry, order_entry_of
from broker.event.site_notice import SiteStatus
from broker.log.known_flows import stream_of
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transcripts import SiteChecker, compare_sites
from broker.testing.transport_network import CARRIED, INSTANCE, TransportNetwork
from plugins.rcm.options import RcmOptions
from plugins.rcm.settings import KIB, RcmLinkSettings
from plugins.rcm.stack import rcm_links
from plugins.rcm.transport import rcm_transport

SITES = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(3)}
#: Links keep about 40 events, and a site is disconnected after 15 s.
SETTINGS = RcmLinkSettings(send_buffer_bytes=64 * KIB, suspect=15.0)


def make_group(world: NetworkWorld, order: str) -> TransportNetwork:
    network = TransportNetwork(
        world,
        (rcm_transport, rcm_links),
        lambda _: StackInstance(
            INSTANCE,
            use="rcm",
            options=RcmOptions(sites=SITES, order=order),
            link_options=SETTINGS,
        ),
    )
    network.add_nodes(len(SITES))
    for name in SITES:
        network.add_publisher(name)
        network.subscribe(f"all-{name}", name, durable="d")
    world.run(2.0)
    return network


def statuses(network: TransportNetwork, name: str) -> list[tuple[str, str, str]]:
    """Return the statuses that the subscription of a site was told: site, state and reason."""
    notices = [notice for _, notice in network.readers[f"all-{name}"][0].notices]
    return [
        (each.site, each.state, each.reason) for each in notices if isinstance(each, SiteStatus)
    ]


def entries(network: TransportNetwork, name: str) -> list[OrderEntry]:
    log = network.world[name].event_log
    events = network.world.wait(log.read(1, 1 << 40, 1 << 60))
    found = [
        order_entry_of(event.record)
        for event in events
        if stream_of(event.record) == CARRIED and not event.is_withheld
    ]
    assert None not in found
    return [entry for entry in found if entry is not None]


@pytest.mark.parametrize("order", ["logical", "sequencer", "real-time", "hybrid"])
@pytest.mark.parametrize("outage", [10.0, 40.0])
def test_a_site_is_connected_when_lost_messages_have_come(order: str, outage: float) -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_group(world, order)
        network.cut("n2")
        for _ in range(round(outage)):
            network.publish(5)
            world.run(0.8)
        network.heal("n2")
        for _ in range(200):
            network.publish(1)
            world.run(0.05)
        network.settle(120.0)
        network.check_states()
        states = ["connected", "suspected", "connected"]
        if outage > SETTINGS.suspect:
            states.insert(2, "disconnected")
        for name in SITES:
            assert network.state_of(name)["lost_sends"] > 0
            told = statuses(network, name)
            for other in SITES.keys() - {name}:
                is_cut = "n2" in (name, other)
                found = [state for site, state, _ in told if site == other]
                assert found == (states if is_cut else ["connected"]), told
        checkers = {name: SiteChecker(False) for name in SITES}
        found = [x for name in SITES for x in checkers[name].check(entries(network, name))]
        found += compare_sites(checkers, has_equal_stamps=order != "sequencer")
        assert not found
