"""The links of a node: one stack for each neighbour, through reconnections (RCM R29; T12, T13)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from zope.interface import implementer

from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.meshing import keeps_connection
from broker.errors import BrokerError, Closed, Overloaded, ProtocolError
from broker.transport.clock import IClock
from broker.transport.correction.figures import Corrections
from broker.transport.driver import IStackReceiver, StackDriver
from broker.transport.multicast import IMulticastReceiver, MulticastChannel, Outcome
from broker.transport.socket import ISocketChannel
from broker.transport.socket.datagram_channel import DatagramChannel
from broker.transport.stack import Stack
from broker.transport.view import LinkState, View


class LinkListener(Protocol):
    """Who is told of links, and of what comes by them."""

    def link_up(self, neighbour: Neighbour) -> None:
        """There is a link; nothing has come by it yet."""

    def link_broken(self, neighbour: Neighbour) -> None:
        """Its connection broke; another one may yet carry it on."""

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        """It is down. What was not delivered is lost."""

    def link_failed(self, neighbour: Neighbour) -> None:
        """A connection was accepted, and broke before there was a link."""

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        """Messages in order. Raises `ProtocolError` for what ends the link."""


@attrs.define(eq=False)
class Neighbour:
    """A node with a link, or with one that broke a moment ago."""

    node: NodeDescriptor
    trusted: bool
    secure: bool
    transport: str
    purpose: str
    initiated: bool
    """Whether this node made the connection."""
    peer: str
    """Where the connection leads, for people to read."""
    version: int = 1
    """The version of the protocol between nodes that both sides speak."""
    up: bool = False
    sent: int = 0
    """Messages, and bytes of them, since the link came up."""
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    full: int = 0
    """Messages that were not taken, since the link was full."""
    reconnections: int = 0
    _channel: ISocketChannel | None = None
    _previous_arq_counts: Corrections = Corrections()

    @property
    def name(self) -> str:
        """The node's."""
        return self.node.name

    def is_same_process(self, node: NodeDescriptor) -> bool:
        """Whether a description is of the same process, in the same cluster as before."""
        return (self.node.incarnation, self.node.address) == (node.incarnation, node.address)

    @property
    def arq_counts(self) -> Corrections | None:
        """What was lost and sent again over its connections, since the link is there; None where
        that is the transport's own affair (TCP)."""
        if not isinstance(self._channel, DatagramChannel):
            return None
        return self._previous_arq_counts.plus(self._channel.core.corrections)

    def set_channel(self, channel: ISocketChannel) -> None:
        """This is its connection from now on."""
        self._previous_arq_counts = self.arq_counts or self._previous_arq_counts
        self._channel = channel


@implementer(IMulticastReceiver)
class Neighbours:
    """All links. A connection that breaks has `suspect` seconds to come again before it is one."""

    log = Logger()

    def __init__(
        self,
        own: str,
        clock: IClock,
        listener: LinkListener,
        make_stack: Callable[[str, str, int], Stack],
        *,
        max_frame: int,
        suspect: float,
    ) -> None:
        """`make_stack` gives the stack for a peer, a transport and an incarnation."""
        self._own = own
        self._clock = clock
        self._listener = listener
        self._make_stack = make_stack
        self._max_frame = max_frame
        self._channel = MulticastChannel(clock, self, suspect)
        self._neighbours: dict[str, Neighbour] = {}
        self._drivers: dict[str, StackDriver] = {}
        self.broken_links: dict[str, int] = {}
        """Links that ended because of what the peer did, by error code."""

    # ------------------------------------------------------------------ reading

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._neighbours.values())

    def get(self, name: str) -> Neighbour | None:
        """The neighbour of this name."""
        return self._neighbours.get(name)

    def count_links(self, transport: str) -> int:
        """How many links there are over a transport."""
        return sum(each.transport == transport for each in self._neighbours.values())

    # ------------------------------------------------------------------ connections

    def attach_connection(self, neighbour: Neighbour, channel: ISocketChannel) -> bool:
        """A connection whose greeting was accepted. False if another one stays in its place."""
        name = neighbour.name
        known = self._neighbours.get(name)
        if known is not None and known.node.incarnation > neighbour.node.incarnation:
            channel.abort(Closed("a later process of that node has a link"))
            return False
        if known is not None and known.is_same_process(neighbour.node):
            driver = self._drivers[name]
            if driver.attached and known.initiated != neighbour.initiated:
                if not keeps_connection(self._own, name, neighbour.initiated):
                    # Not at once: the other end may yet read that it was accepted, and judge alike.
                    channel.close()
                    return False
            known.initiated, known.peer = neighbour.initiated, neighbour.peer
            known.reconnections += 1
            known.set_channel(channel)
            self._attach_channel(driver, channel)
            return True
        if known is not None:
            self._remove_link(
                known, Closed("a later process of that node, or another address, has come")
            )
        driver = self._make_driver(name, neighbour.transport)
        self._neighbours[name], self._drivers[name] = neighbour, driver
        self._channel.join(name, driver)
        neighbour.set_channel(channel)
        self._attach_channel(driver, channel)
        return True

    def close_link(self, name: str, error: BrokerError) -> None:
        """End a link, for good."""
        neighbour = self._neighbours.get(name)
        if neighbour is not None:
            self._remove_link(neighbour, error)

    def close_all(self, error: BrokerError) -> None:
        """End all of them."""
        for neighbour in list(self._neighbours.values()):
            self._remove_link(neighbour, error)

    def flush_all(self) -> Deferred[None]:
        """End all of them in good order; fires when what was sent has left, or can not."""
        flushed = []
        for name in list(self._neighbours):
            del self._neighbours[name]
            driver = self._drivers.pop(name)
            self._channel.leave(name)
            closing = driver.receiver = _Closing()
            if driver.attached:
                flushed.append(closing.closed)
                driver.close()
        return gatherResults(flushed).addCallback(lambda _: None)

    def _make_driver(self, name: str, transport: str) -> StackDriver:
        incarnation = int.from_bytes(os.urandom(7), "big") + 1
        stack = self._make_stack(name, transport, incarnation)
        return StackDriver(stack.layers, self._clock, bottom=stack.bottom)

    def _attach_channel(self, driver: StackDriver, channel: ISocketChannel) -> None:
        channel.max_frame = self._max_frame
        driver.attach(channel)
        channel.resume()

    def _remove_link(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        name = neighbour.name
        if self._neighbours.get(name) is not neighbour:
            return
        del self._neighbours[name]
        driver = self._drivers.pop(name)
        self._channel.leave(name)
        driver.abort(error or Closed("the link is over"))
        if neighbour.up:
            neighbour.up = False
            self._listener.link_down(neighbour, error)
        else:
            self._listener.link_failed(neighbour)

    # ------------------------------------------------------------------ messages

    def send_droppable(self, message: bytes, names: Iterable[str]) -> bool:
        """Send a message that is lost where a link is full: the same to several.

        Whether all have taken it.
        """
        all_sent = True
        for name, outcome in self._channel.send(message, names).items():
            all_sent &= outcome is Outcome.SENT
            neighbour = self._neighbours.get(name)
            if neighbour is None:
                continue
            if outcome is Outcome.SENT:
                neighbour.sent += 1
                neighbour.sent_bytes += len(message)
            elif outcome is Outcome.FULL:
                neighbour.full += 1
        return all_sent

    def send_reliable(self, message: bytes, name: str) -> None:
        """Send a message that must arrive as long as the link is up: a full link is given up."""
        neighbour = self._neighbours.get(name)
        if neighbour is None or not neighbour.up:
            return
        try:
            self._drivers[name].send([message])
        except (Overloaded, Closed) as error:
            self._clock.callLater(0, self._remove_link, neighbour, error)
            return
        neighbour.sent += 1
        neighbour.sent_bytes += len(message)

    def return_credit(self, name: str, count: int) -> None:
        """So many messages of a neighbour are done with."""
        self._channel.consumed(name, count)

    # ------------------------------------------------------------------ IMulticastReceiver

    def messages_received(self, peer: str, messages: Sequence[bytes]) -> None:
        """What came by one read."""
        neighbour = self._neighbours[peer]
        neighbour.received += len(messages)
        neighbour.received_bytes += sum(map(len, messages))
        try:
            self._listener.messages_received(neighbour, messages)
        except ProtocolError as error:
            self.broken_links[error.code] = self.broken_links.get(error.code, 0) + 1
            self.log.warn("the link to {name} is given up: {error}", name=peer, error=error)
            self._clock.callLater(0, self._remove_link, neighbour, error)
            return
        self.return_credit(peer, len(messages))

    def view_changed(self, peer: str, view: View) -> None:
        """A link came, broke, or was given up."""
        neighbour = self._neighbours[peer]
        if view.state is LinkState.CONNECTED:
            if neighbour.up and not view.resumed:
                # It has forgotten what it had: everything begins anew, over this connection.
                neighbour.up = False
                self._listener.link_down(neighbour, None)
            if not neighbour.up:
                neighbour.up = True
                self._listener.link_up(neighbour)
        elif view.state is LinkState.SUSPECTED:
            self._listener.link_broken(neighbour)
        elif view.state is LinkState.DISCONNECTED:
            # In a turn of its own: the stack that tells it is to be dropped.
            self._clock.callLater(0, self._connection_gone, neighbour, view.error)

    def _connection_gone(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        driver = self._drivers.get(neighbour.name)
        if driver is None or not driver.attached:
            # Else another connection has come in the place of one that never became a link.
            self._remove_link(neighbour, error)

    def writable_changed(self, peer: str, writable: bool) -> None:
        """What is not taken now is lost, and asked for again: nobody waits."""


@implementer(IStackReceiver)
class _Closing:
    """The receiver of a stack that is being closed."""

    def __init__(self) -> None:
        self.closed: Deferred[None] = Deferred()

    def messages_received(self, messages: Sequence[bytes]) -> None:
        """Nobody listens any more."""

    def view_changed(self, view: View) -> None:
        """The connection is closed."""
        if view.state is LinkState.DISCONNECTED and not self.closed.called:
            self.closed.callback(None)

    def writable_changed(self, writable: bool) -> None:
        """Nothing more is sent."""
