"""A node that passes the handshake and then sends any message."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from broker.cluster import messages
from broker.cluster.address import Address, parse_unit
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake import Handshake
from broker.cluster.handshake_core import Accepted, Initiator, Refused
from broker.cluster.handshake_messages import GATEWAY, MEMBER, PROTOCOL_VERSIONS
from broker.testing.simulated_network import NetworkWorld
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import ISocketChannel
from broker.transport.socket.closing import ClosingChannels
from broker.transport.socket.contract import TCP_PROPERTIES
from broker.transport.stacks import StackSettings, Transport, build_stack, find_stack
from broker.transport.view import LinkState, View


@implementer(IStackReceiver)
class BadPeer:
    """A gateway of another cluster, or a member of the node's own."""

    def __init__(
        self,
        world: NetworkWorld,
        node: str,
        cluster: str = "evil",
        name: str = "mallory",
        purpose: str = "",
    ) -> None:
        self.received: list[bytes] = []
        self.is_connected = False
        self.refused: Refused | None = None
        self.world = world
        own_unit = world.network_of(node).membership.node.address.unit
        unit = parse_unit(cluster)
        descriptor = NodeDescriptor(
            Address(unit, name), "0123456789abcdef", 1, PROTOCOL_VERSIONS, Endpoint(name, 1)
        )
        self.address = descriptor.address
        core = Initiator(
            node=descriptor,
            network="xmlbroker",
            key=None,
            purpose=purpose or (MEMBER if unit == own_unit else GATEWAY),
            cluster=own_unit,
            expected_name=node,
        )
        self.channel = world.connect(node, name)
        closing = ClosingChannels(world.clock)
        Handshake(self.channel, core, world.clock, self._accepted, self._refused, closing).start()
        world.run(1.0)

    def _accepted(self, _: Accepted, channel: ISocketChannel) -> None:
        settings = StackSettings(incarnation=7, transport=Transport("tcp"))
        stack = build_stack(find_stack("mspaces"), settings, TCP_PROPERTIES, ())
        self.driver = StackDriver(stack.layers, self.world.clock, self, bottom=stack.bottom).join(
            "peer"
        )
        self.driver.attach(channel)
        channel.resume()

    def _refused(self, refused: Refused) -> None:
        self.refused = refused

    def messages_received(self, peer: object, batch: Sequence[bytes]) -> None:
        self.received += batch
        self.driver.consumed(len(batch))

    def view_changed(self, peer: object, view: View) -> None:
        self.is_connected = view.state is LinkState.CONNECTED

    def writable_changed(self, peer: object, writable: bool) -> None:
        pass

    def send(self, *settings: messages.Message | bytes) -> None:
        self.driver.send([m if isinstance(m, bytes) else messages.encode(m) for m in settings])
