"""One member's sockets of an IP multicast group, shared by the stacks of a node (M8, T30, T31)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.errors import Closed
from broker.transport.socket.datagram_demultiplexer import DatagramDemultiplexer
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.group_sockets import GroupTransmitter, open_group_sockets
from broker.transport.socket.udp import format_address


class MulticastSocket:
    """One member's sockets of an IP multicast group, shared by the stacks of a node (M8, T30, T31).

    The parameters are those of `open_group_sockets`. A datagram to the group leaves once. A member
    is known by its own address, which also receives datagrams for it alone.
    """

    def __init__(
        self, reactor: Any, group: str, port: int, interface: str, *, loop: bool = False
    ) -> None:
        self._reactor = reactor
        self._group_address = (group, port, interface)
        self._loop = loop
        self._sockets: tuple[DatagramSocket, ...] = ()
        self._find_source: Callable[[], Any] = lambda: None
        self._sources: set[Any] = set()
        self._users: DatagramDemultiplexer | None = None
        self._transmitter: GroupTransmitter | None = None

    @property
    def users(self) -> DatagramDemultiplexer:
        """Raises `Closed` if the socket is not started."""
        if self._users is None:
            raise Closed("the multicast port is not started")
        return self._users

    def start(self) -> None:
        """Join the group. Raises Twisted's `CannotListenError`."""
        group, port, interface = self._group_address
        target, self._find_source, opened = open_group_sockets(
            group, port, interface, loop=self._loop
        )
        incoming, own = (DatagramSocket(self._reactor, sock, self._received) for sock in opened)
        self._sockets = (incoming, own)
        self._transmitter = GroupTransmitter(own, target, interface)
        self._users = DatagramDemultiplexer(
            *(self._reactor, own),
            describe=format_address,
            to_group=self._transmitter.send,
            is_own=self._is_own,
        )

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        """Send to one member; no effect before `start`."""
        if self._sockets:
            self._sockets[1].send(datagrams, address)

    def send_to_group(self, datagrams: Sequence[bytes]) -> None:
        """No effect before `start`."""
        if self._transmitter is not None:
            self._transmitter.send(datagrams)

    def stop(self) -> None:
        """Stop the ports of the named stacks too; the untagged user stops before."""
        if self._users is not None:
            self._users.stop()
        for sock in self._sockets:
            sock.close()
        self._sockets, self._users, self._transmitter = (), None, None

    def _is_own(self, address: Any) -> bool:
        """Return True for a source address of this member; a new IPv6 address can replace one."""
        if address not in self._sources and address[1] == self._sockets[1].address[1]:
            self._sources.add(self._find_source())
        return address in self._sources

    def _received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        if self._users is not None:
            self._users.datagrams_received(batch)
