"""Raw clients: connections that send any packet, and stacks that send any message."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import implementer

from broker.errors import BrokerError, from_wire
from broker.testing.simulation import World
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.view import LinkState, View
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import MAGIC, PROTOCOL_VERSIONS, Hello, Refuse, Welcome
from broker.wire.stack import session_layers


def hello(client_id: str, incarnation: int = 1, token: bytes = b"t" * 16) -> Hello:
    return Hello(MAGIC, PROTOCOL_VERSIONS, client_id, incarnation, token, "", "")


@implementer(ISocketReceiver)
class RawConnection:
    def __init__(self, world: World, address: str = "stranger") -> None:
        self.packets: list[bytes] = []
        self.is_lost = False
        self.channel: ISocketChannel = world.wait(
            world.network.connect(world.client_address(address))
        )
        self.channel.receiver = self

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self.packets += packets

    def channel_lost(self, error: BrokerError | None) -> None:
        self.is_lost = True

    def writable_changed(self, writable: bool) -> None:
        pass

    @property
    def refusal(self) -> BrokerError | None:
        for packet in self.packets:
            message = messages.decode(packet)
            if isinstance(message, Refuse):
                return from_wire(message.error)
        return None


@implementer(IStackReceiver)
class RawSession:
    def __init__(self, world: World, client_id: str = "talker", incarnation: int = 1) -> None:
        stranger = RawConnection(world, client_id)
        stranger.channel.send([messages.encode(hello(client_id, incarnation))])
        world.run_until(lambda: bool(stranger.packets))
        self._attach(world, stranger, incarnation)
        world.run_until(lambda: self.is_connected)

    @classmethod
    def attach_to(cls, world: World, stranger: RawConnection, incarnation: int) -> RawSession:
        talker = cls.__new__(cls)
        talker._attach(world, stranger, incarnation)
        return talker

    def _attach(self, world: World, stranger: RawConnection, incarnation: int) -> None:
        assert isinstance(messages.decode(stranger.packets[0]), Welcome), stranger.refusal
        self.received: list[bytes] = []
        self.is_connected = False
        self.channel = stranger.channel
        self.driver = StackDriver(session_layers(incarnation, 1 << 20), world.clock, self).join(
            "peer"
        )
        self.driver.attach(stranger.channel)
        assert stranger.channel.receiver is not None
        # The node's stack sends right after its welcome.
        for packet in stranger.packets[1:]:
            stranger.channel.receiver.packets_received([packet])

    def messages_received(self, peer: object, batch: Sequence[bytes]) -> None:
        self.received += batch
        self.driver.consumed(len(batch))

    def view_changed(self, peer: object, view: View) -> None:
        self.is_connected = view.state is LinkState.CONNECTED

    def writable_changed(self, peer: object, writable: bool) -> None:
        pass

    def send(self, *said: Message | bytes) -> None:
        self.driver.send([m if isinstance(m, bytes) else messages.encode(m) for m in said])

    @property
    def control_messages(self) -> list[Message]:
        return [messages.decode(data) for data in self.received if data[0] != messages.DELIVER]

    @property
    def refusal(self) -> BrokerError | None:
        for message in self.control_messages:
            if isinstance(message, Refuse):
                return from_wire(message.error)
        return None
