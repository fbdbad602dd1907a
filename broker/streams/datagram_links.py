"""Links of a transport over raw datagrams: its link stack, with a link for each peer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred, succeed
from zope.interface import implementer

from broker.errors import BrokerError, Closed, ConfigurationError, Overloaded, StackError
from broker.streams.contract import MOST_PEERS, ILinkReceiver, ILinks
from broker.transport.clock import IClock
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.layer import ClockOffset
from broker.transport.message import Message, Outcome, Peer
from broker.transport.socket.contract import IDatagramChannel
from broker.transport.socket.datagram_demultiplexer import DatagramDemultiplexer
from broker.transport.socket.datagram_port import DatagramPortSettings
from broker.transport.socket.udp import format_address
from broker.transport.stack import Stack
from broker.transport.view import LinkState, View

#: Datagrams fit into an Ethernet frame, with the headers of IPv6 and UDP.
PORT_SETTINGS = DatagramPortSettings(datagram_bytes=1_452)


class IDatagramSocket(Protocol):
    """A bound datagram socket, shared by the stacks of a node."""

    @property
    def users(self) -> DatagramDemultiplexer: ...

    def resolve(self, host: str, port: int) -> Hashable:
        """Return the address of a peer. Raises OSError."""

    def stop(self) -> None: ...


#: Binds a host and port. Raises Twisted's `CannotListenError`.
OpenDatagrams = Callable[[str, int], IDatagramSocket]


@implementer(ILinks, IStackReceiver)
class DatagramLinks:
    """Links of one transport instance. Strangers are bounded by the datagram port."""

    def __init__(
        self,
        name: str,
        socket: IDatagramSocket,
        receiver: ILinkReceiver,
        clock: IClock,
        make_stack: Callable[[str], Stack],
        on_close: Callable[[DatagramLinks], object],
        settings: DatagramPortSettings = PORT_SETTINGS,
    ) -> None:
        """`name` tells the datagrams of this instance apart; it is the same at all nodes.

        Raises `ConfigurationError` if the layers do not fit on datagrams.
        """
        self.dropped = 0
        """Messages for links without room, or without a peer."""
        self._socket = socket
        self._receiver = receiver
        self._clock = clock
        self._make_stack = make_stack
        self._on_close = on_close
        stack = make_stack("")
        self._driver = StackDriver(stack.layers, clock, self, bottom=stack.bottom)
        self._added: set[Peer] = set()
        self._views: dict[Peer, View] = {}
        """Last states of the peers with a link."""
        self._port = socket.users.open_port(name, self._accept, settings)

    def add_peer(self, address: tuple[str, int]) -> Hashable:
        try:
            peer = self._socket.resolve(*address)
        except OSError as error:
            raise ConfigurationError(f"{address[0]}: {error}") from None
        if peer not in self._added and len(self._added) >= MOST_PEERS:
            raise Overloaded(f"there are {MOST_PEERS} peers")
        self.remove_peer(peer)
        self._added.add(peer)
        self._attach(self._port.connect(peer), peer)
        return peer

    def resolve(self, host: str) -> Deferred[str]:
        """Return the host: `add_peer` refuses a name."""
        return succeed(host)

    def remove_peer(self, peer: Hashable) -> None:
        self._added.discard(peer)
        if peer in self._driver.links:
            self._remove(peer, Closed("the transport has ended the link"))

    def send(
        self, messages: Sequence[bytes], peers: Sequence[Hashable]
    ) -> Sequence[Mapping[Hashable, Outcome]]:
        outgoing = [Message(each, destinations=tuple(peers)) for each in messages]
        self._driver.send(outgoing)
        outcomes = [each.outcomes for each in outgoing]
        self.dropped += sum(each is not Outcome.SENT for one in outcomes for each in one.values())
        return outcomes

    def view_of(self, peer: Hashable) -> View:
        return self._views.get(peer, View(LinkState.DISCONNECTED))

    def node_of(self, peer: Hashable) -> str:
        """Names are not proven over datagrams."""
        return ""

    def clock_of(self, peer: Hashable) -> ClockOffset | None:
        return None

    def suspect(self, peer: Hashable, reason: str) -> None:
        raise StackError("links over datagrams have no connection monitor")

    def drop_unsent(self, peer: Hashable) -> None:
        """Do nothing: no message waits for a peer."""

    def close(self) -> None:
        for peer in list(self._driver.links):
            self.remove_peer(peer)
        self._port.stop()
        self._on_close(self)

    def snapshot(self) -> Mapping[str, object]:
        peers = [{"address": format_address(peer)} for peer in self._driver.links]
        counts = attrs.asdict(self._port.counts)
        return {"dropped": self.dropped, "peers": peers, "strangers": counts}

    def _accept(self, channel: IDatagramChannel, peer: Peer) -> None:
        if peer in self._driver.links:
            self._remove(peer, Closed("a newer link to the peer"))
        self._attach(channel, peer)

    def _attach(self, channel: IDatagramChannel, peer: Peer) -> None:
        stack = self._make_stack(format_address(peer))
        self._driver.join(peer, stack).attach(channel)
        channel.resume()

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        self._receiver.messages_received(peer, messages)
        self._driver.consumed(peer, len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        self._views[peer] = view
        self._receiver.link_changed(peer, view.state)
        if view.state is LinkState.DISCONNECTED and peer not in self._added:
            # This call comes from the link that is to be removed.
            self._clock.callLater(0, self._forget, peer, view.error)

    def _forget(self, peer: Peer, error: BrokerError | None) -> None:
        link = self._driver.links.get(peer)
        if link is not None and not link.is_attached and peer not in self._added:
            self._remove(peer, error or Closed("the peer has gone"))

    def _remove(self, peer: Peer, error: BrokerError) -> None:
        self._driver.remove(peer, error)
        self._views.pop(peer, None)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        """Messages for a full link are dropped."""
