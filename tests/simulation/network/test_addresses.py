from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from broker.cluster import network_factory as building
from broker.cluster import network_segment as segment
from broker.cluster.network_segment import networks_of_addresses, networks_of_routes
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader
from tests.simulation.network.simulated_client import settle
from tests.simulation.network.test_joining import members_by_unit

ROUTES = """\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100010A\t0003\t0\t0\t0\t00000000\t0\t0\t0
ppp0\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0
eth0\t0000010A\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0
eth0\t0000020A\t0100010A\t0003\t0\t0\t0\t0000FFFF\t0\t0\t0
eth1\t0000030A\t00000000\t0000\t0\t0\t0\t0000FFFF\t0\t0\t0
"""
ADDRESSES = """\
fe8000000000000000fc00fffe000001 04 40 20 80     eth0
20010db8000000000000000000000007 04 30 00 82     eth0
"""


@pytest.mark.parametrize(
    "rules",
    [{"deny": ("10.2.0.0/16",)}, {"allow": ("10.1.0.0/16",)}, {"segment": "same"}],
    ids=["deny", "allow", "segment"],
)
def test_excluded_node_founds_its_own_cluster(
    rules: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "attached_networks", lambda: (ip_network("10.1.0.0/16"),))
    with NetworkWorld(1) as world:
        world.add("a", "top.c", ip="10.1.0.1", **rules)
        world.add("b", join=["a"], ip="10.1.0.2", **rules)
        world.add("far", join=["a"], ip="10.2.0.1")
        world.run(30.0)
        world.add("farther", join=["a"], ip="10.2.0.2")
        world.run(30.0)
        assert members_by_unit(world) == {
            ("top", "c"): {"a", "b"},
            ("top", "c-far"): {"far", "farther"},
        }
        assert world.network_of("a").membership.failed_handshakes["address-not-allowed"] >= 3
        publishers = [Publisher(world.client(f"p-{n}", n)) for n in ("b", "farther")]
        readers = [Reader(world, world.client(f"r-{name}", name)) for name in world.names]
        world.run_until(lambda: all(reader.is_flowing for reader in readers))
        for publisher in publishers:
            publisher.publish()
        settle(world, publishers, readers)
        assert all(len(reader.events) == 2 for reader in readers)


def test_member_dials_no_node_that_its_rules_exclude() -> None:
    with NetworkWorld(1) as world:
        world.add("lax", "c", ip="10.1.0.1")
        # `strict` dials `far`, whose name is smaller.
        world.add("strict", "c", join=["lax"], ip="10.1.0.2", deny=("10.2.0.0/16",))
        world.add("far", "c", join=["lax"], ip="10.2.0.1")
        world.run(30.0)
        assert world.are_linked("lax", "strict") and world.are_linked("lax", "far")
        assert not world.are_linked("far", "strict")
        world.add("seeker", join=["far"], ip="10.1.0.3", deny=("10.2.0.0/16",))
        world.run(30.0)
        assert world.network_of("seeker").state is None
        assert world.network_of("seeker").membership.failed_handshakes["address-not-allowed"]


def test_networks_of_interfaces_are_read_from_linux() -> None:
    assert list(networks_of_routes(ROUTES.splitlines())) == [ip_network("10.1.0.0/16")]
    assert list(networks_of_addresses(ADDRESSES.splitlines())) == [
        ip_network("fe80::/64"),
        ip_network("2001:db8::/48"),
    ]
    assert ip_network("127.0.0.0/8") in segment.attached_networks()


def test_networks_of_all_interfaces_are_attached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"_ROUTES": ROUTES, "_ADDRESSES": ADDRESSES}
    for name in files:
        monkeypatch.setattr(segment, name, tmp_path / name)
    found = [ip_network("127.0.0.0/8")]
    # Without IPv6 the kernel has no file of its addresses.
    assert list(segment.attached_networks()) == found
    for name, networks in {
        "_ROUTES": ["10.1.0.0/16"],
        "_ADDRESSES": ["fe80::/64", "2001:db8::/48"],
    }.items():
        (tmp_path / name).write_text(files[name])
        found += [ip_network(each) for each in networks]
        assert list(segment.attached_networks()) == found
