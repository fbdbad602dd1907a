"""Addresses of this machine: bytes between them cross no network."""

from __future__ import annotations

import ipaddress
from typing import Final

#: Interfaces that only this machine is on.
LOOPBACK_INTERFACES: Final = ("", "lo", "127.0.0.1", "::1")


def is_loopback_host(host: str) -> bool:
    """Return True for `localhost` and a loopback address, also an IPv4 one mapped into IPv6."""
    if host == "localhost":
        return True
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def is_loopback_address(place: str) -> bool:
    """Return True for HOST:PORT of this machine."""
    return is_loopback_host(place.rpartition(":")[0].strip("[]"))
