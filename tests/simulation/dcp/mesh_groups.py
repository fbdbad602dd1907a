"""The IP multicast groups of a mesh in virtual time, on its network of datagrams."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from broker.testing.datagram_network import DatagramNetwork, MemoryDatagramSocket

FIRST_GROUP = "239.77.0.1:8771"
OnPackets = Callable[[Sequence[bytes]], object]


def name_group(number: int) -> Hashable:
    return "group", number


class MeshGroups:
    """Those of one node (`IGroupHost`)."""

    def __init__(self, datagrams: DatagramNetwork, node: str, on_packets: OnPackets) -> None:
        self.sent = 0
        """Datagrams."""
        self.has_sockets = True
        """False: no group can be opened."""
        self.open: dict[int, int] = {}
        """Uses by number."""
        self._datagrams = datagrams
        self._node = node
        self._on_packets = on_packets
        self._sockets: dict[int, MemoryDatagramSocket] = {}

    def open_group(self, number: int) -> bool:
        if not self.has_sockets:
            return False
        self.open[number] = self.open.get(number, 0) + 1
        if number not in self._sockets:
            address = self._node, "group", number
            self._sockets[number] = self._datagrams.bind(address, self._received)
            self._datagrams.join(name_group(number), address)
        return True

    def close_group(self, number: int) -> None:
        self.open[number] -= 1
        if not self.open[number]:
            del self.open[number]
            self._sockets.pop(number).close()

    def send_to_group(self, number: int, packets: list[bytes]) -> None:
        self.sent += len(packets)
        self._sockets[number].send(packets, name_group(number))

    def _received(self, batch: Sequence[tuple[bytes, Hashable]]) -> None:
        self._on_packets([data for data, _ in batch])
