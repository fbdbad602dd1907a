"""Links of a node: a protocol stack with a link per neighbour, kept through reconnections (RCM
R29; T12, T13).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, cast

import attrs
from twisted.internet.defer import Deferred, gatherResults
from twisted.logger import Logger
from zope.interface import implementer

from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake_core import Accepted
from broker.cluster.meshing import keeps_connection
from broker.errors import BrokerError, Closed, Overloaded, ProtocolError
from broker.transport.arq.connection_channel import ConnectionChannel
from broker.transport.arq.counters import ArqCounters, HandshakeCounts
from broker.transport.clock import IClock, IDelayed
from broker.transport.driver import IStackReceiver, Link, StackDriver
from broker.transport.layer import IMonitorCore
from broker.transport.message import Message, Outcome, Peer
from broker.transport.socket import ISocketChannel
from broker.transport.stack import Stack
from broker.transport.view import NEGOTIATING, LinkState, View


class LinkListener(Protocol):
    def link_up(self, neighbour: Neighbour) -> None:
        """Called before the first message."""

    def link_broken(self, neighbour: Neighbour) -> None:
        """A new connection may resume the link."""

    def link_resumed(self, neighbour: Neighbour) -> None:
        """No message is lost."""

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        """Undelivered messages are lost."""

    def link_failed(self, neighbour: Neighbour) -> None:
        """An accepted connection broke before the link was up."""

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        """Messages in order. Raises `ProtocolError` to end the link."""


@attrs.define(eq=False)
class Neighbour:
    """A node with a link, or with one that broke just now."""

    node: NodeDescriptor
    trusted: bool
    secure: bool
    transport: str
    purpose: str
    initiated: bool
    peer: str
    confidential: bool = True
    """Encrypted, or within this machine."""
    certified_name: str = ""
    """Empty without a certificate."""
    version: int = 1
    """Of the protocol between nodes."""
    up: bool = False
    sent: int = 0
    """Counts since the link came up."""
    sent_bytes: int = 0
    received: int = 0
    received_bytes: int = 0
    full: int = 0
    reconnections: int = 0
    view: View = View(LinkState.DISCONNECTED)
    """The last one."""
    is_suspended: bool = False
    """The present connection was that of a link which is up, and may be dead."""
    removal: IDelayed | None = None
    """Of a link that outlives its disconnection."""
    _channel: ISocketChannel | None = None
    _previous_arq_counts: ArqCounters = ArqCounters()

    @classmethod
    def from_handshake(
        cls, accepted: Accepted, channel: ISocketChannel, transport: str, initiated: bool
    ) -> Neighbour:
        return cls(
            node=accepted.peer,
            trusted=accepted.trusted,
            secure=channel.secure,
            transport=transport,
            purpose=accepted.purpose,
            initiated=initiated,
            peer=channel.peer_description,
            confidential=channel.confidential,
            certified_name=channel.certified_name,
            version=accepted.version,
        )

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def protection(self) -> tuple[bool, bool, bool]:
        """Properties of the link that decide its clearance."""
        return self.trusted, self.secure, self.confidential

    def is_same_process(self, node: NodeDescriptor) -> bool:
        return (self.node.incarnation, self.node.address) == (node.incarnation, node.address)

    @property
    def arq_counts(self) -> ArqCounters | None:
        """None for TCP."""
        if not isinstance(self._channel, ConnectionChannel):
            return None
        return self._previous_arq_counts.plus(self._channel.core.counters)

    def set_channel(self, channel: ISocketChannel) -> None:
        self._previous_arq_counts = self.arq_counts or self._previous_arq_counts
        self._channel = channel


@implementer(IStackReceiver)
class Neighbours:
    """Links of a node: one per neighbour, kept through reconnections (RCM R29; T12, T13).

    A broken connection may come back within some seconds: `suspect` of the stack's settings.
    """

    log = Logger()

    def __init__(
        self,
        own: str,
        clock: IClock,
        listener: LinkListener,
        stack: Stack,
        make_stack: Callable[[str, str, int], Stack],
        *,
        max_frame: int,
        keep: float = 0.0,
    ) -> None:
        """`make_stack` returns `stack` with the layers of the link to a peer, for a transport and
        an incarnation. It raises `BrokerError` to refuse the peer.

        Links outlive a disconnection for `keep` seconds, and then a restart of the peer too.
        """
        self._keep = keep
        self._own = own
        self._clock = clock
        self._listener = listener
        self._make_stack = make_stack
        self._max_frame = max_frame
        self.driver = StackDriver(stack.layers, clock, self, stack.bottom)
        self._closing: dict[str, Deferred[None]] = {}
        self._neighbours: dict[str, Neighbour] = {}
        self.broken_links: dict[str, int] = {}
        """By error code."""
        self.udp_counts: HandshakeCounts | None = None
        """Of datagrams outside connections; None without a port for UDP."""

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._neighbours.values())

    def get(self, name: str) -> Neighbour | None:
        return self._neighbours.get(name)

    def is_attached(self, name: str) -> bool:
        link = self.driver.links.get(name)
        return link is not None and link.is_attached

    def monitor_of(self, name: str) -> IMonitorCore | None:
        link = self.driver.links.get(name)
        return None if link is None else link.monitor

    def suspect(self, name: str, reason: str) -> None:
        """Suspect a neighbour for its quality; without effect if there is no link.

        Raises `StackError` if the links have no monitor.
        """
        if name in self._neighbours:
            self.driver.suspect(name, reason)

    def drop_unsent(self, name: str) -> None:
        """Drop what waits for a neighbour that is not connected."""
        if name in self._neighbours:
            self.driver.drop_unsent(name)

    def count_links(self, transport: str) -> int:
        return sum(each.transport == transport for each in self._neighbours.values())

    def attach_connection(self, neighbour: Neighbour, channel: ISocketChannel) -> bool:
        """Return False if another connection is kept instead."""
        name = neighbour.name
        known = self._neighbours.get(name)
        is_later = known is not None and known.node.incarnation > neighbour.node.incarnation
        if known is not None and is_later and not self._may_be_gone(known):
            channel.abort(Closed("a later process of that node has a link"))
            return False
        is_same = known is not None and known.is_same_process(neighbour.node)
        if known is not None and (is_same or self._keep):
            link = self.driver.links[name]
            is_twofold = is_same and link.is_attached and not known.is_suspended
            if is_twofold and known.initiated != neighbour.initiated:
                if not keeps_connection(self._own, name, neighbour.initiated):
                    # The other end must read its acceptance to decide alike.
                    channel.close()
                    return False
            known.node, known.is_suspended = neighbour.node, False
            known.initiated, known.peer = neighbour.initiated, neighbour.peer
            known.reconnections += 1
            known.set_channel(channel)
            self._attach_channel(link, channel)
            return True
        if known is not None:
            self._remove_link(
                known, Closed("replaced by a later process of that node, or by its new address")
            )
        incarnation = int.from_bytes(os.urandom(7), "big") + 1
        try:
            stack = self._make_stack(name, neighbour.transport, incarnation)
            link = self.driver.join(name, stack)
        except (BrokerError, ValueError) as error:
            # The stack has failed, or a link to that node is just being closed.
            channel.abort(Closed(f"no link is made: {error}"))
            return False
        self._neighbours[name] = neighbour
        neighbour.set_channel(channel)
        self._attach_channel(link, channel)
        return True

    def _may_be_gone(self, known: Neighbour) -> bool:
        """Return True if a link that outlives its connections has none that works.

        Then its layers decide by incarnations that do not depend on clocks.
        """
        is_attached = self.driver.links[known.name].is_attached
        return bool(self._keep) and (known.is_suspended or not is_attached)

    def close_link(self, name: str, error: BrokerError) -> None:
        neighbour = self._neighbours.get(name)
        if neighbour is not None:
            self._remove_link(neighbour, error)

    def close_all(self, error: BrokerError) -> None:
        for neighbour in list(self._neighbours.values()):
            self._remove_link(neighbour, error)
        self.driver.leave_group(error)

    def flush_all(self) -> Deferred[None]:
        """Close all links. Fires when all data has left or is lost."""
        for name in list(self._neighbours):
            _cancel_removal(self._neighbours.pop(name))
            if self.driver.links[name].is_attached:
                self._closing[name] = Deferred()
                self.driver.close(name)
            else:
                self.driver.remove(name, Closed("the link is over"))
        return gatherResults(self._closing.values()).addCallback(lambda _: None)

    def _attach_channel(self, link: Link, channel: ISocketChannel) -> None:
        channel.max_frame = self._max_frame
        link.attach(channel)
        channel.resume()

    def _remove_link(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        name = neighbour.name
        if self._neighbours.get(name) is not neighbour:
            return
        del self._neighbours[name]
        _cancel_removal(neighbour)
        self.driver.remove(name, error or Closed("the link is over"))
        if neighbour.up:
            neighbour.up = False
            self._listener.link_down(neighbour, error)
        else:
            self._listener.link_failed(neighbour)

    def send_droppable(self, message: bytes, names: Iterable[str]) -> bool:
        """Send a message that full links drop. Return True if all have taken it."""
        outcomes = self.send(message, names)
        for name, outcome in outcomes.items():
            neighbour = self._neighbours.get(name)
            if neighbour is not None and outcome is Outcome.FULL:
                neighbour.full += 1
        return all(outcome is Outcome.SENT for outcome in outcomes.values())

    def send_reliable(self, message: bytes, name: str) -> None:
        """Send a message that must not be lost: a full link is ended."""
        neighbour = self._neighbours.get(name)
        if neighbour is None or not neighbour.up:
            return
        outcome = self.send(message, (name,), is_urgent=True)[name]
        if outcome is not Outcome.SENT:
            error = (
                Overloaded(f"the link has no room for a message of {len(message)} bytes")
                if outcome is Outcome.FULL
                else Closed("the link takes no messages")
            )
            self._clock.callLater(0, self._remove_link, neighbour, error)

    def is_writable(self, name: str) -> bool:
        """Return False for a link without room, or if there is none."""
        link = self.driver.links.get(name)
        return link is not None and link.is_writable

    def send(
        self, payload: bytes, names: Iterable[str], *, is_urgent: bool = False
    ) -> dict[str, Outcome]:
        """Send a message, and return its outcomes by name."""
        message = Message(payload, destinations=tuple(names), is_urgent=is_urgent)
        self.driver.send([message])
        outcomes = cast(dict[str, Outcome], message.outcomes)
        for name, outcome in outcomes.items():
            neighbour = self._neighbours.get(name)
            if neighbour is not None and outcome is Outcome.SENT:
                neighbour.sent += 1
                neighbour.sent_bytes += len(payload)
        return outcomes

    def return_credit(self, name: str, count: int) -> None:
        self.driver.consumed(name, count)

    def messages_received(self, peer: Peer, messages: Sequence[bytes]) -> None:
        neighbour = self._neighbours.get(cast(str, peer))
        if neighbour is None:
            return
        neighbour.received += len(messages)
        neighbour.received_bytes += sum(map(len, messages))
        try:
            self._listener.messages_received(neighbour, messages)
        except ProtocolError as error:
            self.broken_links[error.code] = self.broken_links.get(error.code, 0) + 1
            self.log.warn("the link to {name} is ended: {error}", name=peer, error=error)
            self._clock.callLater(0, self._remove_link, neighbour, error)
            return
        self.return_credit(neighbour.name, len(messages))

    def view_changed(self, peer: Peer, view: View) -> None:
        name = cast(str, peer)
        neighbour = self._neighbours.get(name)
        if neighbour is None:
            if view.state is not LinkState.CONNECTED and name in self._closing:
                self.driver.remove(name, Closed("the link is over"))
                self._closing.pop(name).callback(None)
            return
        if view.reason == NEGOTIATING:
            return
        if neighbour.view.state is LinkState.CONNECTED:
            link = self.driver.links[name]
            neighbour.is_suspended = view.state is LinkState.SUSPECTED and link.is_attached
        neighbour.view = view
        if view.state is LinkState.CONNECTED:
            neighbour.is_suspended = False
            _cancel_removal(neighbour)
            if neighbour.up and not view.resumed and not self._keep:
                # The peer has lost its state: the link starts again over this connection.
                neighbour.up = False
                self._listener.link_down(neighbour, None)
            if neighbour.up:
                self._listener.link_resumed(neighbour)
            else:
                neighbour.up = True
                self._listener.link_up(neighbour)
        elif view.state is LinkState.SUSPECTED:
            self._listener.link_broken(neighbour)
        elif self._keep:
            self._keep_link(neighbour, view.error)
        else:
            # This call comes from the stack that is to be removed.
            self._clock.callLater(0, self._connection_gone, neighbour, view.error)

    def _keep_link(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        if neighbour.removal is None:
            neighbour.removal = self._clock.callLater(
                self._keep, self._remove_link, neighbour, error
            )
        if neighbour.up:
            neighbour.up = False
            self._listener.link_down(neighbour, error)
        else:
            self._listener.link_failed(neighbour)

    def _connection_gone(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        link = self.driver.links.get(neighbour.name)
        if link is None or not link.is_attached:
            # Otherwise a new connection has replaced one that never became a link.
            self._remove_link(neighbour, error)

    def writable_changed(self, peer: Peer, writable: bool) -> None:
        """Dropped messages are requested again, and no sender waits."""


def _cancel_removal(neighbour: Neighbour) -> None:
    removal, neighbour.removal = neighbour.removal, None
    if removal is not None and removal.active():
        removal.cancel()
