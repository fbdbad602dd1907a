"""Resolution of host names."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IAddress, IHostResolution, IResolutionReceiver
from zope.interface import implementer


def resolve_host(reactor: Any, host: str, family: socket.AddressFamily) -> Deferred[str]:
    """Resolve a host to its first numeric address in a family. Fails with `DNSLookupError`."""
    try:
        ip_address(host)
    except ValueError:
        pass
    else:
        return succeed(host)
    found = _FirstAddress()
    kind = IPv6Address if family == socket.AF_INET6 else IPv4Address
    reactor.nameResolver.resolveHostName(found, host, 0, [kind])
    return found.address


@implementer(IResolutionReceiver)
class _FirstAddress:
    def __init__(self) -> None:
        self.address: Deferred[str] = Deferred()

    def resolutionBegan(self, resolutionInProgress: IHostResolution) -> None: ...

    def addressResolved(self, address: IAddress) -> None:
        if isinstance(address, IPv4Address | IPv6Address) and not self.address.called:
            self.address.callback(address.host)

    def resolutionComplete(self) -> None:
        if not self.address.called:
            self.address.errback(DNSLookupError())
