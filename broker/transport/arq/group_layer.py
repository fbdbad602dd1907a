"""Error correction among the members of a multicast group, as a layer."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random, SystemRandom
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.transport.arq import group_effects
from broker.transport.arq.group_core import GroupCore, check_member_name
from broker.transport.arq.group_effects import (
    PacketsLost,
    SenderAppeared,
    SenderDisappeared,
    SendToGroup,
)
from broker.transport.arq.group_settings import GroupSettings
from broker.transport.arq.mac import Mac, derive_group_key
from broker.transport.effects import (
    Consumed,
    DeliverUp,
    Effect,
    Outcomes,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import ILayer, PassThrough, Property
from broker.transport.message import Message, Outcome, Peer
from broker.transport.socket.contract import DEFAULT_MAX_FRAME
from broker.transport.view import LinkState, View

#: The peer of the channel to all members (`DatagramPort.connect_group`).
GROUP = "the group"


@implementer(ILayer)
@attrs.frozen(kw_only=True)
class GroupLayer:
    """A member of a group of `docs/protocols/arq.md`, over raw datagrams.

    Join the peer `GROUP` with a channel to all members, and each member under its address. A
    message has the destination `GROUP`, and leaves once for all members. Each member receives the
    messages of one sender in order. Lost ones are reported as CONNECTED that is not `resumed`.
    A member is CONNECTED while it is present, whether it receives this one or not.

    All members share `secret`. Raises `ConfigurationError` for a name that does not fit.
    """

    member: str
    """Name of this member, up to 128 bytes."""
    settings: GroupSettings = GroupSettings(datagram_bytes=1300)
    secret: bytes = attrs.field(default=b"", repr=False)
    max_message: int = DEFAULT_MAX_FRAME
    random: Random = attrs.field(factory=SystemRandom)

    name: ClassVar[str] = "group-arq"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    #: A packet is consumed when it is received.
    breaks: ClassVar[frozenset[Property]] = frozenset(
        {Property.RELIABLE, Property.RESUMABLE, Property.BACKPRESSURE}
    )

    def __attrs_post_init__(self) -> None:
        check_member_name(self.member)

    @property
    def provides(self) -> frozenset[Property]:
        given = {
            *(Property.ANY_SIZE, Property.FIFO, Property.OUTAGE_NOTICE),
            *(Property.ONE_TO_MANY, Property.SENDER_ORDER),
        }
        return frozenset({*given, Property.AUTHENTICATED} if self.secret else given)

    def create_core(self) -> GroupLayerCore:
        return GroupLayerCore(self)


class GroupLayerCore(PassThrough):
    """A `GroupCore` whose addresses are peers."""

    def __init__(self, layer: GroupLayer) -> None:
        self.group = GroupCore(
            *(layer.settings, Mac(derive_group_key(layer.secret)), layer.member),
            *(layer.random.getrandbits(64) or 1, layer.random.random, layer.max_message),
            now=0.0,
        )
        self._peers: dict[str, Peer] = {}
        """Peers of present members by name."""
        self._flush_at: float | None = None

    def submit(self, messages: Sequence[Message], now: float) -> list[Effect]:
        for_group = [each.encode() for each in messages if GROUP in each.destinations]
        effects = self._convert(self.group.submit(for_group)) if for_group else []
        # Messages of one turn leave together.
        self._flush_at = now
        for message in messages:
            message.outcomes.update(
                (peer, Outcome.SENT if peer == GROUP else Outcome.ABSENT)
                for peer in message.destinations
            )
        return [*effects, Outcomes(messages)]

    def receive(self, messages: Sequence[Message], peer: Peer, now: float) -> list[Effect]:
        datagrams = [(each.payload, peer) for each in messages]
        received = self._convert(self.group.receive(datagrams, now))
        return [Consumed(len(messages), peer), *received]

    def outcomes(self, messages: Sequence[Message], now: float) -> list[Effect]:
        return []

    def view_changed(self, peer: Peer, view: View, now: float) -> list[Effect]:
        # A channel below has no peer before a member appears behind it.
        return [ViewChanged(view, peer)] if view.state is LinkState.DISCONNECTED else []

    def writable_changed(self, peer: Peer, writable: bool, now: float) -> list[Effect]:
        return []

    def consumed(self, peer: Peer, count: int, now: float) -> list[Effect]:
        return []

    def peer_removed(self, peer: Peer, now: float) -> list[Effect]:
        self._peers = {name: each for name, each in self._peers.items() if each != peer}
        return []

    def handle_timeout(self, now: float) -> list[Effect]:
        self._flush_at = None
        return self._convert(self.group.handle_timeout(now))

    def next_timeout(self) -> float | None:
        due = self.group.next_timeout()
        return due if self._flush_at is None else min(due, self._flush_at)

    def _convert(self, effects: Sequence[group_effects.Effect]) -> list[Effect]:
        return [new for each in effects for new in self._convert_one(each)]

    def _convert_one(self, effect: group_effects.Effect) -> list[Effect]:
        match effect:
            case SendToGroup(datagrams):
                return [_send_down(datagrams, GROUP)]
            case SendDown(datagrams, peer):
                return [_send_down(datagrams, peer)]
            case WritableChanged(writable):
                return [WritableChanged(writable, GROUP)]
            case SenderAppeared(sender):
                return self._add_member(sender)
            case DeliverUp(packets, sender) if sender in self._peers:
                peer = self._peers[sender]
                return [DeliverUp([Message(each, peer) for each in packets], peer)]
            case PacketsLost(sender) if sender in self._peers:
                return [ViewChanged(View(LinkState.CONNECTED), self._peers[sender])]
            case SenderDisappeared(sender) if sender in self._peers:
                return [ViewChanged(View(LinkState.DISCONNECTED), self._peers.pop(sender))]
        return []

    def _add_member(self, sender: str) -> list[Effect]:
        for receiver in self.group.receivers.values():
            if receiver.name == sender:
                self._peers[sender] = receiver.address
                return [ViewChanged(View(LinkState.CONNECTED), receiver.address)]
        return []


def _send_down(datagrams: Sequence[bytes], peer: Peer) -> SendDown:
    return SendDown([Message(each, destinations=(peer,)) for each in datagrams], peer)
