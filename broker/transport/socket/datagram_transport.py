"""The interface of a transport of datagrams."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Protocol, TypeAlias

#: Equal addresses are one peer.
Address: TypeAlias = Hashable
#: Receives the datagrams of one read, each with its source.
OnDatagrams: TypeAlias = Callable[[Sequence[tuple[bytes, Address]]], None]

#: Bytes of a jumbo frame.
MAX_DATAGRAM: Final = 9000
#: With IPv6 this fits into the 1400 bytes that tunnels leave.
DEFAULT_DATAGRAM: Final = 1350


class DatagramTransport(Protocol):
    """A transport that may lose datagrams."""

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        """Send datagrams to one address, or lose them."""


class IDatagramPort(DatagramTransport, Protocol):
    """A transport on a port of its own."""

    def close(self) -> object:
        """Close the port."""
