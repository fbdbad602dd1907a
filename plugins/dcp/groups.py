"""The IP multicast groups of a router: those of its children, and those of its parents."""

from __future__ import annotations

from collections.abc import Iterable

from broker.transport.arq.handshake import Entropy
from plugins.dcp.children import Children
from plugins.dcp.connection import Connection
from plugins.dcp.control import ControlMessage, Group, Ungroup
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.group_children import GroupChildren
from plugins.dcp.group_host import IGroupHost
from plugins.dcp.group_receiver import GroupReceiver
from plugins.dcp.settings import DcpSettings


class Groups:
    def __init__(
        self, host: IGroupHost, settings: DcpSettings, children: Children, entropy: Entropy
    ) -> None:
        self.children = GroupChildren(host, settings, children, entropy)
        self.receiver = GroupReceiver(host)

    def flush(self, endpoint: Endpoint, now: float) -> None:
        """Send the packets of the connections, and of the groups."""
        self.children.prepare(now)
        endpoint.flush(now)
        self.children.flush(now)

    def receive(self, packets: Iterable[bytes], now: float) -> None:
        """Handle packets to groups. `Router.flush` follows."""
        for data in packets:
            self.receiver.receive(data, now)

    def take_message(self, connection: Connection, message: ControlMessage, now: float) -> bool:
        """Handle a message about the group of a parent, which this node has dialled. Return False
        for another message, or another sender.

        Raises `ProtocolError`.
        """
        if connection.is_dialled and isinstance(message, Group):
            self.receiver.join(connection, message, now)
        elif connection.is_dialled and isinstance(message, Ungroup):
            self.receiver.leave(connection)
        else:
            return False
        return True

    def next_timeout(self) -> float | None:
        return self.children.next_timeout()

    def snapshot(self) -> dict[str, object]:
        return {**self.children.snapshot(), **self.receiver.snapshot()}
