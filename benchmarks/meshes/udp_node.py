"""A node of a mesh on a UDP socket of the loopback interface."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.meshes.matching import ILinkMatching
from benchmarks.meshes.mesh_node import MeshNode
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.udp import UdpSocket
from plugins.dcp.settings import DcpSettings

_HERE: Final = "127.0.0.1"
SOCKETS: Final = Path("/proc/net/udp")
#: A loaded machine stops a process for a while: no peer is given up for that.
PATIENT: Final = DcpSettings(parents=1, least_keepalive=2.0)


class UdpNode:
    """A router that sends and receives on a socket of its own."""

    def __init__(
        self,
        reactor: Any,
        name: str,
        settings: DcpSettings,
        parents: Sequence[Address],
        seed: int,
        matching: ILinkMatching | None = None,
    ) -> None:
        """Without `parents` it is a root. `matching` is a fake by default."""
        self._udp = UdpSocket(reactor, _HERE, 0)
        self._udp.start()
        self.address = self._udp.bound_address
        self.mesh = MeshNode(name, reactor, settings, parents, seed)
        self.mesh.transmit = self._udp.socket.send
        if matching is not None:
            self.mesh.matching = matching
        self._udp.users.set_untagged_user(self.mesh.receive)
        self.mesh.start()

    @property
    def dropped(self) -> int:
        """Datagrams that the system did not accept, or dropped before they were read."""
        return self._udp.socket.dropped + count_unread(SOCKETS.read_text(), self.address[1])

    @property
    def room(self) -> int:
        """Bytes of the receive buffer, as the system counts them."""
        return self._udp.socket.receive_buffer

    def stop(self) -> None:
        self.mesh.stop()
        self._udp.stop()


def count_unread(table: str, port: int) -> int:
    """Return the datagrams that Linux dropped at a full receive buffer.

    `table` has the form of `/proc/net/udp`: the local address and port in hexadecimal, and last the
    dropped datagrams.
    """
    rows = [line.split() for line in table.splitlines()[1:]]
    return sum(int(row[-1]) for row in rows if int(row[1].rpartition(":")[2], 16) == port)


def call_when(
    reactor: Any, is_reached: Callable[[], bool], call: Callable[[], object], interval: float = 0.02
) -> None:
    """Call a function as soon as a condition holds."""
    if is_reached():
        call()
    else:
        reactor.callLater(interval, call_when, reactor, is_reached, call, interval)
