"""A link of the simulation of orders over the real monitor, in the place of its model."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from zope.interface import implementer

from broker.testing.order.channel import Channel, Data, Hello, Loss, StreamId
from broker.testing.order.link import REMOVED, IOwner
from broker.testing.order.members import Record
from broker.testing.order.network import Connection, Network
from broker.testing.order.timers import Timers
from broker.transport.effects import DeliverUp, Effect, Failed, SendDown, ViewChanged
from broker.transport.monitor import ILinkOwner, MonitorSettings
from broker.transport.monitor.core import MonitorCore
from broker.transport.view import NEGOTIATING, LinkState, View

_CONNECTED, _SUSPECTED = LinkState.CONNECTED, LinkState.SUSPECTED
_DISCONNECTED = LinkState.DISCONNECTED


class Ack(NamedTuple):
    stream: StreamId
    received: int


@implementer(ILinkOwner)
class ClockOwner:
    def __init__(self, owner: IOwner, peer: str, lists: list[Mapping[str, Record]]) -> None:
        """`lists` are those of offers: their bytes are the place here."""
        self._owner = owner
        self._peer = peer
        self._lists = lists

    def read_site_clock(self, now: float) -> int:
        return round(now * 1e6)

    def make_offer(self, now: float) -> bytes:
        self._lists.append(dict(self._owner.members.records))
        return b"%d %d" % (self._owner.make_offer(self._peer), len(self._lists) - 1)

    def answer_offer(self, offer: bytes, now: float) -> bytes | None:
        clock, place = map(int, offer.split())
        self._owner.unite(self._lists[place])
        if self._peer not in self._owner.members:
            return None
        answer = self._owner.answer_offer(self._peer, clock)
        return None if answer is None else b"%d" % answer

    def accept_answer(self, answer: bytes, now: float) -> bool:
        return self._owner.accept_answer(self._peer, int(answer))


class MonitoredLink:
    """End of the connections with one peer; the model of p2p stands on the monitor."""

    def __init__(
        self,
        owner: IOwner,
        names: tuple[str, str],
        incarnation: int,
        network: Network,
        timers: Timers,
        keeps_packets: bool,
    ) -> None:
        self.state = _DISCONNECTED
        self.channel = Channel(incarnation)
        self.is_stopped = False
        self._owner = owner
        self._name, self._peer = names
        self._network = network
        self._loop = network.loop
        self._timers = timers
        self._keeps_packets = keeps_packets
        settings = MonitorSettings(
            heartbeat=timers.heartbeat,
            liveness=timers.liveness,
            silence=timers.silence,
            suspect=timers.suspect,
            reconnect=timers.reconnect,
            most_round_trip=0.0,
            most_age=0.0,
        )
        lists = network.__dict__.setdefault("lists", [])
        self.core = MonitorCore(incarnation, settings, ClockOwner(owner, self._peer, lists))
        self._connection: Connection | None = None
        self._is_shaken = self._is_told = False
        self._dial_at = self._checked_at = -1.0
        self._inputs: deque[tuple[Callable[..., None], tuple[object, ...]]] = deque()
        self._is_running = False
        # Packets that came while the peer was disconnected.
        self._held: list[object] = []
        # Packets of the model above the monitor are bytes here.
        self._carried: dict[bytes, object] = network.__dict__.setdefault("carried", {})

    # ----------------------------------------------------------------- of the site

    def start(self) -> None:
        self._dial()

    def join(self) -> None:
        self._dial_at = self._loop.now
        self._dial()

    def leave(self) -> None:
        self.stop(silently=False)
        if self.state is not _DISCONNECTED:
            self._report(_DISCONNECTED, REMOVED)

    def stop(self, *, silently: bool) -> None:
        self.is_stopped = True
        if self._connection is not None:
            self._connection.close(self._name, silently=silently)

    def send(self, packet: object) -> bool:
        if self.state is _DISCONNECTED:
            return False
        self.channel.add_packet(packet)
        self._send_unsent()
        return True

    def suspect(self, reason: str) -> None:
        self._enqueue(lambda: self._apply(self.core.suspect(reason, self._loop.now)))

    # ----------------------------------------------------------------- of the network

    def connection_made(self, connection: Connection) -> None:
        if self.is_stopped or self._peer not in self._owner.members:
            connection.close(self._name)
        else:
            self._enqueue(self._attach, connection)

    def connection_lost(self, connection: Connection) -> None:
        self._enqueue(self._lose, connection)

    def packets_received(self, connection: Connection, packets: list[object]) -> None:
        self._enqueue(self._receive, connection, packets)

    # ----------------------------------------------------------------- inside

    def _enqueue(self, function: Callable[..., None], *args: object) -> None:
        """Call no core while it runs."""
        self._inputs.append((function, args))
        if self._is_running:
            return
        self._is_running = True
        while self._inputs:
            called, arguments = self._inputs.popleft()
            if not self.is_stopped:
                called(*arguments)
        self._is_running = False
        self._plan()

    def _attach(self, connection: Connection) -> None:
        if self._connection is not None:
            self._connection.close(self._name)
            self._lose(self._connection)
        self._connection = connection
        self._apply(self.core.view_changed(View(_CONNECTED), self._loop.now))

    def _lose(self, connection: Connection) -> None:
        if connection is self._connection:
            self._connection = None
            self._is_shaken = self._is_told = False
            self._apply(self.core.view_changed(View(_DISCONNECTED), self._loop.now))
            self._dial()

    def _receive(self, connection: Connection, packets: Sequence[bytes]) -> None:
        if connection is self._connection:
            self._apply(self.core.receive(packets, self._loop.now))

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case SendDown(packets):
                    for packet in packets:
                        if self._connection is not None:
                            self._connection.send(self._name, packet)
                case ViewChanged(view):
                    self._view_changed(view)
                case DeliverUp(packets):
                    self._deliver([self._carried[packet] for packet in packets])
                case Failed():
                    assert self._connection is not None
                    self._connection.close(self._name)
                    self._lose(self._connection)

    def _view_changed(self, view: View) -> None:
        if view.reason == NEGOTIATING:
            return
        if view.is_restarted:
            # What is sent from now on is for the new process.
            self.channel.drop_packets()
            self.channel.peer_incarnation = 0
            self._held.clear()
        if view.is_new_connection:
            self._send_packet(self.channel.make_hello())
            return
        if view.state is _CONNECTED:
            self._is_told = True
            self._send_unsent()
            self._pass_up([])
            return
        self._is_told = False
        if view.state is _DISCONNECTED and self.state is not _DISCONNECTED:
            self._report(view.state, "suspected for too long")
            if not self._keeps_packets:
                self.channel.drop_packets()
        elif view.state is _SUSPECTED and self.state is _CONNECTED:
            self._report(view.state, view.reason)

    def _report(self, state: LinkState, reason: str) -> None:
        self.state = state
        self._owner.report_state(self._peer, state, reason)

    def _deliver(self, packets: Sequence[object]) -> None:
        up: list[object] = []
        for packet in packets:
            match packet:
                case Hello():
                    assert self.channel.accept_hello(packet)
                    self._is_shaken = True
                    self._send_packet(self.channel.make_loss(self._owner.last_sent))
                    self._send_unsent()
                case Ack(stream, received):
                    self.channel.accept_acknowledgement(stream, received)
                case Loss():
                    up.append(packet)
                case Data():
                    if self.channel.accept_data(packet):
                        up.append(packet.packet)
        if up:
            self._send_packet(Ack(*self.channel.received))
        self._pass_up(up)

    def _pass_up(self, packets: list[object]) -> None:
        self._held += packets
        if self.state is not _DISCONNECTED and self._held:
            held, self._held = self._held, []
            self._owner.receive(self._peer, held)

    def _send_unsent(self) -> None:
        if self._is_shaken and self._is_told:
            for data in self.channel.take_unsent(self._loop.now):
                self._send_packet(data)

    def _send_packet(self, packet: object) -> None:
        key = b"\x01%d" % len(self._carried)
        self._carried[key] = packet
        if self._connection is not None:
            self._apply(self.core.submit([key], self._loop.now))

    # ----------------------------------------------------------------- timers

    def _dial(self) -> None:
        """Dial at once, then each period."""
        if self._connection is None and self._name < self._peer and not self.is_stopped:
            now = self._loop.now
            if now >= self._dial_at:
                self._dial_at = now + self._timers.reconnect
                if self._peer in self._owner.members:
                    self._network.dial(self._name, self._peer)
            self._loop.call_at(self._dial_at, self._dial)

    def _plan(self) -> None:
        due = self.core.next_timeout()
        if due is not None and not self.is_stopped and due != self._checked_at:
            self._checked_at = due
            self._loop.call_at(due, self._check, due)

    def _check(self, due: float) -> None:
        if due == self._checked_at:
            self._checked_at = -1.0
            self._enqueue(lambda: self._apply(self.core.handle_timeout(self._loop.now)))
