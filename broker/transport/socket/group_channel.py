"""The channel of one member of an IP multicast group, to all others together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zope.interface import implementer

from broker.errors import BrokerError
from broker.transport.socket.contract import ISocketChannel, ISocketReceiver
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.multicast import MulticastSocket


@implementer(ISocketChannel)
class GroupChannel:
    """Packets leave once, and reach the other members or none; those of all members arrive.

    The first byte of a packet is below 128. Members on this host receive from each other, and a
    member may receive its own packets. Raises Twisted's `CannotListenError`.
    """

    secure = confidential = False
    certified_name = ""

    def __init__(self, reactor: Any, group: str, port: int, interface: str) -> None:
        self.peer_description = f"{group}:{port} on {interface}"
        self.max_frame = 2**16
        self.receiver: ISocketReceiver | None = None
        self._is_reading = True
        self._socket = MulticastSocket(reactor, group, port, interface, loop=True)
        self._socket.start()
        self._socket.users.set_untagged_user(self._received)

    def send(self, packets: Sequence[bytes]) -> None:
        self._socket.send_to_group(packets)

    def close(self) -> None:
        self._socket.stop()

    def abort(self, error: BrokerError) -> None:
        self._socket.stop()

    def pause(self) -> None:
        self._is_reading = False

    def resume(self) -> None:
        self._is_reading = True

    def _received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        if self.receiver is not None and self._is_reading:
            self.receiver.packets_received([datagram for datagram, _ in batch])
