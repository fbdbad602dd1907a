"""Multicast core between a simulated site and its links."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, cast

from broker.testing.order.channel import Framed, Loss
from broker.testing.order.loop import Loop
from broker.testing.order.members import Members, Record, SentList
from broker.testing.order.site import Site
from broker.transport.effects import DeliverUp, Effect, Failed, SendDown
from broker.transport.message import Message, Outcome
from broker.transport.multicast.group_core import GroupCore
from broker.transport.multicast.sharing_core import GROUP, SharingCore
from broker.transport.multicast.tree_core import TreeCore
from broker.transport.order import Message as OrderMessage
from broker.transport.order import MessageId, OrderSettings
from broker.transport.view import LinkState, View

#: Makes the core of a site from its name and the key of its process.
MakeFanOut: TypeAlias = Callable[[str, bytes], SharingCore]


def _make_tree(name: str, key: bytes) -> SharingCore:
    return _SmallTreeCore(name, key)


def _make_group(name: str, key: bytes) -> SharingCore:
    return _SmallGroupCore(name, key)


class _SmallTreeCore(TreeCore):
    """Its trees are deep in small groups."""

    least_shared = 0
    degree = 1


class _SmallGroupCore(GroupCore):
    least_shared = 0


FAN_OUTS: Final[Mapping[str, MakeFanOut | None]] = {
    "copies": None,
    "tree": _make_tree,
    "group": _make_group,
}
#: A repair takes `incoming.MOST_PATIENCE` and two delays more than a copy.
SETTINGS: Final[Mapping[str, OrderSettings]] = {
    "copies": OrderSettings(),
    "tree": OrderSettings(delta=0.7),
    "group": OrderSettings(delta=0.7),
}


class FanOut:
    """The owner of the links of a site: it has the core, and the site is its user.

    Effects are applied as by `broker.transport.driver.StackDriver`.
    """

    def __init__(self, site: Site, core: SharingCore, loop: Loop) -> None:
        self.core = core
        self._site = site
        self._loop = loop
        self._effects: deque[Effect] = deque()
        self._is_applying = False
        self._timer = float("inf")
        self._losses: dict[str, Loss] = {}
        """Losses behind messages that wait for their bodies."""
        self._streams: dict[str, object] = {}
        self.send_to_group: Callable[[str, Sequence[bytes]], object] = lambda *_: None
        site.send_packet = self.send

    @property
    def last_sent(self) -> MessageId:
        return self._site.last_sent

    @property
    def members(self) -> Members:
        return self._site.members

    # ----------------------------------------------------------------- of the site

    def send(self, packet: object, sites: Sequence[str]) -> list[str]:
        data = self._site.codec.encode([packet])
        message = Message(data, destinations=tuple(sites))
        id = packet.id if isinstance(packet, OrderMessage) else None
        self._apply(self.core.submit([message], self._loop.now), id)
        return [cast(str, site) for site, each in message.outcomes.items() if each is Outcome.SENT]

    # ----------------------------------------------------------------- of the links

    def make_offer(self, peer: str) -> int:
        return self._site.make_offer(peer)

    def unite(self, records: Mapping[str, Record]) -> None:
        self._site.unite(records)

    def answer_offer(self, peer: str, clock: int) -> int | None:
        return self._site.answer_offer(peer, clock)

    def accept_answer(self, peer: str, clock: int) -> bool:
        # As the monitor, which reports that it negotiates.
        self._change_view(peer, View(LinkState.SUSPECTED))
        if not self._site.accept_answer(peer, clock):
            return False
        stream = self._site.links[peer].channel.stream
        is_resumed = self._streams.get(peer) == stream
        self._streams[peer] = stream
        self._change_view(peer, View(LinkState.CONNECTED, resumed=is_resumed))
        return True

    def report_state(self, peer: str, state: LinkState, reason: str) -> None:
        self._change_view(peer, View(state, reason=reason))
        self._site.report_state(peer, state, reason)

    def receive(self, peer: str, packets: list[object]) -> None:
        for packet in packets:
            if isinstance(packet, Loss):
                self._losses[peer] = packet
            elif isinstance(packet, SentList):
                self._site.receive(peer, [packet])
            else:
                assert isinstance(packet, Framed)
                message = Message(packet.data, peer)
                self._apply(self.core.receive([message], peer, self._loop.now))
            if peer in self._losses and not self.core.has_waiting(peer):
                self._site.receive(peer, [self._losses.pop(peer)])

    def receive_from_group(self, datagrams: Sequence[bytes]) -> None:
        if self._site.is_running:
            messages = [Message(each, GROUP) for each in datagrams]
            self._apply(self.core.receive(messages, GROUP, self._loop.now))

    # ----------------------------------------------------------------- of the core

    def _change_view(self, peer: str, view: View) -> None:
        self._apply(self.core.view_changed(peer, view, self._loop.now))

    def _apply(self, effects: Iterable[Effect], id: MessageId | None = None) -> None:
        for effect in effects:
            if isinstance(effect, SendDown):
                self._send_down(effect, id)
            else:
                self._effects.append(effect)
        if self._is_applying:
            return
        self._is_applying = True
        while self._effects and self._site.is_running:
            match self._effects.popleft():
                case DeliverUp(messages, peer):
                    self._deliver(cast(str, peer), messages)
                case Failed(error):
                    raise AssertionError(f"{self._site.name}: {error}")
        self._is_applying = False
        self._arm()

    def _send_down(self, effect: SendDown, id: MessageId | None) -> None:
        peer = cast(str, effect.peer)
        if peer == GROUP:
            self.send_to_group(self._site.name, [each.encode() for each in effect.packets])
            return
        for message in effect.packets:
            # Outcomes of packets that are the layer's own are not those of the user's message.
            is_place = peer in message.outcomes
            packet = Framed(message.encode(), id if is_place else None)
            if not self._site.links[peer].send(packet):
                message.outcomes[peer] = Outcome.ABSENT

    def _deliver(self, peer: str, messages: Sequence[Message]) -> None:
        for message in messages:
            self._site.receive(peer, list(self._site.codec.decode(peer, message.payload)))
        self._apply(self.core.consumed(peer, len(messages), self._loop.now))

    def _arm(self) -> None:
        due = self.core.next_timeout()
        if due is not None and due < self._timer:
            self._timer = due
            self._loop.call_at(due, self._handle_timeout, due)

    def _handle_timeout(self, due: float) -> None:
        if due == self._timer and self._site.is_running:
            self._timer = float("inf")
            self._apply(self.core.handle_timeout(self._loop.now))
