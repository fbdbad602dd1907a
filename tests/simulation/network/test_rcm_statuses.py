"""Statuses of the sites of a group, in virtual time."""

from __future__ import annotations

import pytest

from broker.config.stacks import StackInstance
from broker.errors import ProtocolError
from broker.testing.determinism import deterministic
from broker.testing.simulated_network import NetworkWorld
from broker.testing.transport_network import INSTANCE, TransportNetwork
from plugins.rcm.options import RcmOptions
from plugins.rcm.plugin import rcm_transport
from plugins.rcm.settings import RcmLinkSettings
from plugins.rcm.stack import rcm_links
from plugins.rcm.transport import RcmTransport

SITES = {f"n{each}": f"tcp:host=127.0.0.1:port={9000 + each}" for each in range(3)}


def make_network(world: NetworkWorld, settings: RcmLinkSettings) -> TransportNetwork:
    network = TransportNetwork(
        world,
        (rcm_transport, rcm_links),
        lambda _: StackInstance(
            INSTANCE, use="rcm", options=RcmOptions(sites=SITES), link_options=settings
        ),
    )
    network.add_nodes(len(SITES))
    return network


def statuses(network: TransportNetwork, name: str) -> dict[str, str]:
    peers = network.state_of(name)["peers"]
    return {each["site"]: each["status"] for each in peers}


@pytest.mark.parametrize("keep", [0.0, 600.0])
def test_a_site_that_is_restarted_is_connected_again(keep: float) -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_network(world, RcmLinkSettings(keep=keep))
        world.run(10.0)
        network.kill("n2")
        world.run(2.0)
        world.start("n2")
        world.run(20.0)
        for name in SITES:
            assert statuses(network, name) == dict.fromkeys(SITES.keys() - {name}, "connected")


@pytest.mark.parametrize("keep", [0.0, 600.0])
def test_a_site_whose_link_was_made_anew_is_connected_again(keep: float) -> None:
    with deterministic(3), NetworkWorld(3) as world:
        network = make_network(world, RcmLinkSettings(keep=keep))
        world.run(10.0)
        transports = world["n0"].transports
        assert transports is not None
        (instance,) = [each for each in transports if each.instance == INSTANCE]
        transport = instance._transport
        assert isinstance(transport, RcmTransport)
        transport._end_link("n1", ProtocolError("a wrong packet"))
        world.run(20.0)
        for name in SITES:
            assert statuses(network, name) == dict.fromkeys(SITES.keys() - {name}, "connected")
