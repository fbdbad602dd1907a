"""Endpoints that are joined by a lossy network, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from itertools import count
from random import Random

from plugins.dcp.connection import Connection
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.packet import EXTENDED, FIN, SYN, Packet, decode, encode
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import Owner


class Node:
    """An endpoint, and everything that came there."""

    def __init__(self, name: str, network: Network, settings: DcpSettings, seed: str = "") -> None:
        self.name = name
        self.owner = Owner(settings)
        self.sent: list[bytes] = []
        self._network = network
        entropy = Random(name + seed).randbytes
        self.endpoint = Endpoint(settings, self.owner, self._send, entropy)

    def _send(self, peer: Hashable, packets: list[bytes]) -> None:
        self.sent += packets
        for data in packets:
            self._network.carry(self.name, str(peer), data)

    @property
    def connections(self) -> list[Connection]:
        return [*self.endpoint]

    @property
    def only(self) -> Connection:
        (found,) = self.endpoint
        return found


class Network:
    """Endpoints in virtual time."""

    def __init__(
        self, *names: str, seed: int = 0, loss: float = 0.0, settings: DcpSettings | None = None
    ) -> None:
        self.now = 0.0
        self.loss = loss
        self.drops: Callable[[str, bytes], bool] = lambda receiver, data: False
        """Returns True for further packets to a node that are lost."""
        self.carried: list[tuple[str, str, bytes]] = []
        """All packets: source, receiver, bytes."""
        self._random = Random(seed)
        self._flying: list[tuple[float, int, str, str, bytes]] = []
        self._numbers = count()
        self.nodes = {name: Node(name, self, settings or DcpSettings()) for name in names}

    def __getitem__(self, name: str) -> Node:
        return self.nodes[name]

    def carry(self, source: str, receiver: str, data: bytes) -> None:
        self.carried.append((source, receiver, data))
        if self._random.random() >= self.loss and not self.drops(receiver, data):
            at = self.now + 0.01
            heappush(self._flying, (at, next(self._numbers), source, receiver, data))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            for node in self.nodes.values():
                node.endpoint.flush(self.now)
            times = [node.endpoint.next_timeout() for node in self.nodes.values()]
            known = [each for each in times if each is not None]
            due = min([*known, *(each[0] for each in self._flying[:1])], default=end + 1)
            if due > end:
                break
            self.now = max(self.now, due)
            while self._flying and self._flying[0][0] <= self.now:
                _, _, source, receiver, data = heappop(self._flying)
                if receiver in self.nodes:
                    self.nodes[receiver].endpoint.receive(source, data, self.now)
            for node in self.nodes.values():
                node.endpoint.handle_timeout(self.now)
        self.now = end


def connect(network: Network, child: str = "c", parent: str = "p") -> tuple[Connection, Connection]:
    network[child].endpoint.dial(parent, network.now)
    network.run(0.1)
    dialled = network[child].endpoint.find_dialled(parent)
    assert dialled is not None
    accepted = [each for each in network[parent].endpoint if each.own_id == dialled.remote_id]
    return dialled, accepted[0]


def wrap(message: bytes, connection: int = 0) -> bytes:
    return encode(Packet(SYN | EXTENDED, 0, 0, message, connection), with_checksum=True)


def handshakes_to(network: Network, receiver: str, kind: int) -> list[bytes]:
    """Return the packets of the handshake of one kind."""
    found = []
    for _, each, data in network.carried:
        packet = decode(data) if each == receiver and data[1] & SYN and not data[1] & FIN else None
        if packet is not None and packet.body and packet.body[0] == kind:
            found.append(data)
    return found
