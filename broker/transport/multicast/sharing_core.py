"""Base of the tree and group cores: links carry references, and bodies take another path.

A peer gets a message as a copy, or as a reference on its own link and a body that comes another
way. It passes the message on when both are there, in the order of its own link. So order, loss,
suspicion and resumption are those of copies; a shared way can only fail to bring a body, which then
comes as a repair on the own link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, cast

import attrs
from zope.interface import implementer

from broker.errors import ProtocolError
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Failed,
    SendDown,
    ViewChanged,
)
from broker.transport.layer import ILayerCore
from broker.transport.message import Message, Outcome, Peer
from broker.transport.multicast.bounds import Bounds
from broker.transport.multicast.core import MulticastCore
from broker.transport.multicast.incoming import Incoming
from broker.transport.multicast.outgoing import Outgoing
from broker.transport.multicast.wire import (
    COPY,
    Acknowledge,
    Body,
    LinkView,
    Need,
    Packet,
    Pass,
    Reference,
    Repair,
    Route,
    decode,
    encode,
)
from broker.transport.view import LinkState, View

#: Peer of the link to a group. No site has such a name.
GROUP: Final = "the group"
#: Smaller messages go as copies: a reference is hardly shorter.
LEAST_SHARED: Final = 128


@attrs.frozen
class Spread:
    """The ways of a body. Peers that are not in it get copies."""

    routes: Mapping[str, Route] = {}
    """Peers that pass the body on, each with the route behind it."""
    references: Sequence[str] = ()
    datagrams: Sequence[bytes] = ()
    """For the group."""


@implementer(ILayerCore)
class SharingCore(MulticastCore):
    """References and repairs; a subclass has the shared way.

    Peers are names that are the same at all ends. For each peer `Bounds` has the bounds of sent
    bodies and held copies, and at most `incoming.MOST_BODY_BYTES` of received bodies are kept
    beside `incoming.MOST_ASKED` repairs.
    """

    #: Bytes of the smallest body that is shared.
    least_shared = LEAST_SHARED

    def __init__(self, node: str, key: bytes, bounds: Bounds = Bounds()) -> None:  # noqa: B008
        """`node` is the name of this end, `key` that of this process (`wire.LinkView`)."""
        super().__init__()
        self.node = node
        self._bounds = bounds
        self.key = key
        self.incoming: dict[str, Incoming] = {}
        self.outgoing: dict[str, Outgoing] = {}
        self.references = 0
        self.repairs = 0
        """Bodies that a peer has asked for, since they did not come."""
        # Bodies of an earlier process have other numbers.
        self._counter = int.from_bytes(key[:8], "big") >> 2
        self._epoch = 0
        self._due: float | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """Counts for `status`."""
        return {"references": self.references, "repairs": self.repairs}

    def spread_body(self, payload: bytes, counter: int, peers: Sequence[str]) -> Spread | None:
        """Return the ways of a body to connected peers, or None for copies."""
        raise NotImplementedError

    # ----------------------------------------------------------------- sending

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        effects = super().submit(messages, now)
        packets: dict[tuple[int, Peer], Message] = {}
        datagrams: list[Effect] = []
        for message in messages:
            datagrams += self._share(message, packets, now)
        found: list[Effect] = []
        for effect in effects:
            if isinstance(effect, SendDown):
                peer = effect.peer
                found += self._introduce(cast(str, peer))
                batch = [packets.get((id(each), peer), each) for each in effect.packets]
                effect = SendDown(batch, peer)
            found.append(effect)
        return [*datagrams, *found]

    def _share(
        self, message: Message, packets: dict[tuple[int, Peer], Message], now: float
    ) -> list[Effect]:
        """Add the packets of a message that are no copies. Return the effects for the group."""
        payload = bytes(message.encode())
        message.push(COPY)
        if len(payload) < self.least_shared:
            return []
        peers = [
            cast(str, peer)
            for peer, outcome in message.outcomes.items()
            if outcome is Outcome.SENT and self._may_refer(cast(str, peer), len(payload), now)
        ]
        spread = self.spread_body(payload, self._counter + 1, peers) if len(peers) > 1 else None
        if spread is None:
            return []
        self._counter += 1
        own: dict[str, Packet] = {
            name: Pass(Body("", self._counter, list(route), payload))
            for name, route in spread.routes.items()
        }
        for name in spread.references:
            self.outgoing[name].refer(self._counter, payload)
            self.references += 1
            own[name] = Reference(self._counter)
        for name, packet in own.items():
            # The link records in the user's message if it refuses the packet.
            outcomes = message.outcomes
            packets[id(message), name] = Message(
                encode(packet), destinations=(name,), outcomes=outcomes
            )
        if not spread.datagrams:
            return []
        return [
            SendDown([Message(each, destinations=(GROUP,)) for each in spread.datagrams], GROUP)
        ]

    def _may_refer(self, peer: str, size: int, now: float) -> bool:
        return self.is_connected(peer) and self.outgoing[peer].may_refer(size, now)

    def has_waiting(self, peer: str) -> bool:
        """Return whether messages of a peer wait for their bodies."""
        return peer in self.incoming and len(self.incoming[peer]) > 0

    def is_connected(self, peer: str) -> bool:
        return self._states.get(peer) is LinkState.CONNECTED and bool(self.incoming[peer].key)

    def _introduce(self, peer: str) -> list[Effect]:
        """Return the view of the present epoch, before the first packet of it."""
        outgoing = self.outgoing[peer]
        if outgoing.is_introduced:
            return []
        outgoing.is_introduced = True
        return [self._send_view(peer)]

    def _send_view(self, peer: str) -> Effect:
        connected = [
            name for name in self.outgoing if self._states.get(name) is LinkState.CONNECTED
        ]
        return _send(LinkView(self.key, self.outgoing[peer].epoch, connected), peer)

    # ----------------------------------------------------------------- receiving

    def receive(self, messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        name = cast(str, peer)
        incoming, _ = self._find_halves(name)
        effects: list[Effect] = []
        finished = 0
        failure: Failed | None = None
        for place, message in enumerate(messages):
            try:
                if message.payload[:1] == COPY:
                    message.payload = message.payload[1:]
                    incoming.add_message(message)
                    continue
                packet = decode(message.payload)
                finished += not isinstance(packet, Pass | Reference)
                effects += self._handle(packet, name, incoming, now)
            except ProtocolError as error:
                failure = Failed(error, peer)
                finished += len(messages) - place
                break
        effects += self._release(name, finished)
        if failure is not None:
            effects.append(failure)
        self._plan(incoming)
        return effects

    def _handle(self, packet: Packet, peer: str, incoming: Incoming, now: float) -> list[Effect]:
        match packet:
            case Pass(body):
                incoming.add_message(Message(body.payload, peer))
                return self.pass_on(peer, body)
            case Reference(counter):
                incoming.add_reference(counter, now)
            case Body(source, counter, _, payload):
                found = self.incoming.get(source)
                effects = self.pass_on(source, packet)
                if found is not None and source != peer:
                    found.add_body(counter, payload, now)
                    effects += self._release(source, 0)
                return effects
            case Repair(counter, payload):
                incoming.add_repair(counter, payload)
            case Need(counter):
                needed = self.outgoing[peer].find_body(counter, now)
                if needed is None:
                    return []
                self.repairs += 1
                return [_send(Repair(counter, needed), peer, is_urgent=True)]
            case Acknowledge(counter):
                self.outgoing[peer].acknowledge(counter)
            case LinkView():
                over = incoming.accept_view(packet)
                self.views_changed()
                return [Consumed(over, peer)] if over else []
        return []

    def pass_on(self, source: str, body: Body) -> list[Effect]:
        """Return the effects that send a body along its route. Raises `ProtocolError`."""
        raise ProtocolError("a body came, and the fan-out of this site is no tree")

    def _release(self, peer: str, finished: int) -> list[Effect]:
        """Deliver messages whose bodies are there; `finished` packets were for this layer."""
        incoming = self.incoming[peer]
        ready = incoming.take_ready()
        finished += incoming.take_credit()
        effects: list[Effect] = [Consumed(finished, peer)] if finished else []
        if ready:
            effects.append(DeliverUp(ready, peer))
        return effects

    def consumed(self, peer: Peer, count: int, now: float) -> list[Effect]:
        effects: list[Effect] = []
        incoming = self.incoming.get(cast(str, peer))
        if incoming is not None:
            due = incoming.record_finished(count, now)
            effects = [Consumed(due, peer)] if due else []
            effects += self._answer(cast(str, peer), now)
            self._plan(incoming)
        return effects

    # ----------------------------------------------------------------- states

    def view_changed(self, peer: Peer, view: View, now: float) -> list[Effect]:
        name = cast(str, peer)
        was_connected = self._states.get(peer) is LinkState.CONNECTED
        self._states[peer] = view.state
        is_connected = view.state is LinkState.CONNECTED
        incoming, outgoing = self._find_halves(name)
        effects: list[Effect] = []
        if is_connected:
            if not view.resumed:
                self._epoch += 1
                lost = view.undelivered + outgoing.reset(self._epoch)
                view = attrs.evolve(view, undelivered=lost)
            incoming.connect(is_resumed=view.resumed)
            outgoing.is_introduced = True
            effects.append(self._send_view(name))
        elif was_connected:
            incoming.suspend()
        if view.state is LinkState.DISCONNECTED:
            incoming.disconnect()
        effects.append(ViewChanged(view, peer))
        if is_connected:
            effects += [*self._release(name, 0), *self._answer(name, now)]
            self._plan(incoming)
        if is_connected is not was_connected:
            self.views_changed()
            effects += self._links_changed(name)
        return effects

    def _find_halves(self, peer: str) -> tuple[Incoming, Outgoing]:
        if peer not in self.incoming:
            self._epoch += 1
            self.incoming[peer] = Incoming(peer, self._bounds.held)
            self.outgoing[peer] = Outgoing(self._epoch, self._bounds.unacknowledged)
        return self.incoming[peer], self.outgoing[peer]

    def views_changed(self) -> None:
        """Handle that peers see others as connected than before."""

    def _links_changed(self, peer: str) -> list[Effect]:
        """Tell the other connected peers which links this site has."""
        return [
            self._send_view(name)
            for name in self.outgoing
            if name != peer and self._states.get(name) is LinkState.CONNECTED
        ]

    def peer_removed(self, peer: Peer, now: float) -> list[Effect]:
        was_connected = self._states.get(peer) is LinkState.CONNECTED
        super().peer_removed(peer, now)
        self.incoming.pop(cast(str, peer), None)
        self.outgoing.pop(cast(str, peer), None)
        return self._links_changed(cast(str, peer)) if was_connected else []

    # ----------------------------------------------------------------- timers

    def handle_timeout(self, now: float) -> list[Effect]:
        self._due = None
        effects: list[Effect] = []
        for name, incoming in self.incoming.items():
            if self._states.get(name) is LinkState.CONNECTED:
                effects += self._answer(name, now)
                self._plan(incoming)
        return effects

    def next_timeout(self) -> float | None:
        return self._due

    def _answer(self, peer: str, now: float) -> list[Effect]:
        """Return what a connected peer is due: acknowledgements, and requests of late bodies."""
        if self._states.get(peer) is not LinkState.CONNECTED:
            return []
        incoming = self.incoming[peer]
        packets: list[Packet] = [Need(counter) for counter in incoming.take_overdue(now)]
        acknowledgement = incoming.take_acknowledgement(now)
        if acknowledgement is not None:
            packets.append(acknowledgement)
        return [_send(packet, peer, is_urgent=True) for packet in packets]

    def _plan(self, incoming: Incoming) -> None:
        due = incoming.next_timeout()
        if due is not None and (self._due is None or due < self._due):
            self._due = due


def _send(packet: Packet, peer: str, *, is_urgent: bool = False) -> SendDown:
    return SendDown([Message(encode(packet), destinations=(peer,), is_urgent=is_urgent)], peer)
