"""Network segments: the networks of this machine's interfaces (M2, K31)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from pathlib import Path
from typing import Final, TypeAlias

IpNetwork: TypeAlias = IPv4Network | IPv6Network

_ROUTES: Final = Path("/proc/net/route")
_ADDRESSES: Final = Path("/proc/net/if_inet6")
_UP: Final = 0x1
_GATEWAY: Final = 0x2
#: The kernel lists its routes over the loopback interface in another table.
_LOOPBACK: Final = IPv4Network("127.0.0.0/8")


def attached_networks() -> tuple[IpNetwork, ...]:
    """The networks of all interfaces that are up now, as Linux lists them (M2, K31)."""
    found: list[IpNetwork] = [_LOOPBACK]
    with suppress(FileNotFoundError):
        found += networks_of_routes(_ROUTES.read_text().splitlines())
    # Absent where the kernel has no IPv6.
    with suppress(FileNotFoundError):
        found += networks_of_addresses(_ADDRESSES.read_text().splitlines())
    return tuple(found)


def networks_of_routes(lines: Iterable[str]) -> Iterator[IPv4Network]:
    """Directly connected networks in `/proc/net/route`."""
    for line in list(lines)[1:]:
        _, destination, _, flags, _, _, _, mask, *_ = line.split()
        is_direct = int(flags, 16) & (_UP | _GATEWAY) == _UP
        if is_direct and int(mask, 16):
            yield IPv4Network(f"{_ipv4(destination)}/{_ipv4(mask)}")


def networks_of_addresses(lines: Iterable[str]) -> Iterator[IPv6Network]:
    """Networks of the addresses in `/proc/net/if_inet6`."""
    for line in lines:
        address, _, length, *_ = line.split()
        yield IPv6Network((IPv6Address(bytes.fromhex(address)), int(length, 16)), strict=False)


def _ipv4(text: str) -> IPv4Address:
    # The four bytes are one number in the machine's own byte order.
    return IPv4Address(socket.inet_ntoa(struct.pack("=I", int(text, 16))))
