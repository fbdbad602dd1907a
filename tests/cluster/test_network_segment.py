"""Networks in the kernel's tables of routes."""

from __future__ import annotations

from ipaddress import ip_network

from broker.cluster.network_segment import networks_of_routes

HEADER = "Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT"


def route(flags: str, mask: str = "0000FFFF", destination: str = "0000010A") -> str:
    return f"eth0 {destination} 00000000 {flags} 0 0 0 {mask} 0 0 0"


def test_routes_without_a_gateway_show_the_networks_of_this_machine() -> None:
    # Flags are hexadecimal: 11 has the bit of a route that is up, and another one.
    lines = [HEADER, route("0001"), route("0003"), route("0000"), route("0011"), route("0001", "0")]
    assert list(networks_of_routes(lines)) == [ip_network("10.1.0.0/16")] * 2
