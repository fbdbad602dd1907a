"""The channel of a member of a group in memory (`broker.transport.socket.group_channel`)."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from broker.errors import BrokerError
from broker.testing.datagram_network import DatagramNetwork
from broker.transport.socket.contract import ISocketChannel, ISocketReceiver
from broker.transport.socket.datagram_transport import Address


@implementer(ISocketChannel)
class MemoryGroupChannel:
    """Datagrams pass through a `DatagramNetwork`, which has the faults."""

    secure = confidential = False
    certified_name = ""
    max_frame = 2**16

    def __init__(self, network: DatagramNetwork, group: Address, member: Address) -> None:
        self.peer_description = f"{group}"
        self.receiver: ISocketReceiver | None = None
        self.sent_bytes = 0
        self._network = network
        self._group = group
        self._member = member
        self._socket = network.bind(member, self._received)
        network.join(group, member)

    def send(self, packets: Sequence[bytes]) -> None:
        self.sent_bytes += sum(map(len, packets))
        self._socket.send(packets, self._group)

    def close(self) -> None:
        self._network.unbind(self._member)

    def abort(self, error: BrokerError) -> None:
        self.close()

    def pause(self) -> None:
        """Do nothing: tests do not pause a group."""

    def resume(self) -> None:
        """Do nothing."""

    def _received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        if self.receiver is not None:
            self.receiver.packets_received([datagram for datagram, _ in batch])
