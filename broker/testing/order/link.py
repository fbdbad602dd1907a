"""One site's monitor of another: the tables of states of RCM R24 and R25, as a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from broker.testing.order.channel import Channel, Data, Hello, Loss, StreamId
from broker.testing.order.loop import Loop
from broker.testing.order.members import Members, Record
from broker.testing.order.network import Connection, Network
from broker.testing.order.timers import Timers
from broker.transport.order import MessageId
from broker.transport.view import LinkState

_CONNECTED, _SUSPECTED = LinkState.CONNECTED, LinkState.SUSPECTED
_DISCONNECTED = LinkState.DISCONNECTED


class Offer(NamedTuple):
    clock: int
    sites: Mapping[str, Record]


class Answer(NamedTuple):
    clock: int


class Heartbeat(NamedTuple):
    """`is_good` is False while its sender suspects the receiver, other than for silence."""

    is_good: bool
    stream: StreamId
    received: int


#: Reason of the end of a link to a site that has left.
REMOVED = "removed"
#: Seconds until an offer is given to the owner again.
_AGAIN = 0.02


class IOwner(Protocol):
    """The site of a link."""

    @property
    def last_sent(self) -> MessageId: ...
    @property
    def members(self) -> Members: ...
    def make_offer(self, peer: str) -> int: ...
    def unite(self, records: Mapping[str, Record]) -> None:
        """Take the changes of the peer's list of sites."""

    def answer_offer(self, peer: str, clock: int) -> int | None:
        """Return the answer, or None to get the offer again."""

    def accept_answer(self, peer: str, clock: int) -> bool:
        """Report the peer as connected, or return False for another offer."""

    def report_state(self, peer: str, state: LinkState, reason: str) -> None: ...
    def receive(self, peer: str, packets: list[object]) -> None: ...


class Link:
    """End of the connections with one peer. The smaller name dials."""

    #: False in a mutant: `connected` is reported before the clock came.
    waits_for_clock = True

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
        self._loop: Loop = network.loop
        self._timers = timers
        self._keeps_packets = keeps_packets
        self._connection: Connection | None = None
        self._is_shaken = False
        self._is_silent = False
        self._is_offered = False
        self._heard_at = self._beat_at = self._attempt_end = 0.0
        self._dial_at = self._loop.now
        self._suspected_at = 0.0
        self._bad_until: float | None = None
        self._is_peer_satisfied = True
        self._checked_at = -1.0
        # Packets that came while the peer was disconnected.
        self._held: list[object] = []

    # ----------------------------------------------------------------- of the site

    def start(self) -> None:
        self._check()

    def join(self) -> None:
        """Begin a link: the peer is a site of the group from now on."""
        self._dial_at = self._loop.now
        self._check()

    def leave(self) -> None:
        """End the link: the peer has left the group."""
        if self._connection is not None:
            self._connection.close(self._name)
            self._connection = None
        self._held.clear()
        self.channel.drop_packets()
        if self.state is not _DISCONNECTED:
            self._report(_DISCONNECTED, REMOVED)

    def stop(self, *, silently: bool) -> None:
        self.is_stopped = True
        if self._connection is not None:
            self._connection.close(self._name, silently=silently)

    def send(self, packet: object) -> bool:
        """Return False for a disconnected peer. A suspected one gets the packet later."""
        if self.state is _DISCONNECTED:
            return False
        self.channel.add_packet(packet)
        if self.state is _CONNECTED:
            self._send_unsent()
        return True

    def suspect(self, reason: str) -> None:
        """Suspect the peer for its quality, until `liveness` has passed well."""
        self._bad_until = self._loop.now + self._timers.liveness
        self._report(_SUSPECTED, reason)
        self._send_heartbeat()
        self._check()

    # ----------------------------------------------------------------- of the network

    def connection_made(self, connection: Connection) -> None:
        if self.is_stopped or not self._is_member:
            connection.close(self._name)
            return
        if self._connection is not None:
            self._connection.close(self._name)
        self._lose("replaced")
        self._connection = connection
        self._heard_at = self._loop.now
        self._attempt_end = self._loop.now + self._timers.reconnect
        self._send_now(self.channel.make_hello())
        self._offer()
        self._check()

    def connection_lost(self, connection: Connection) -> None:
        if connection is self._connection and not self.is_stopped:
            self._lose("connection lost")
            self._dial_at = self._loop.now
            self._check()

    def packets_received(self, connection: Connection, packets: list[object]) -> None:
        for packet in packets:
            if connection is not self._connection or self.is_stopped:
                connection.close(self._name)
                return
            self._heard_at = self._loop.now
            if self._is_silent:
                self._is_silent = False
                self._offer()
            if isinstance(packet, Data):
                if self.channel.accept_data(packet):
                    self._held.append(packet.packet)
            else:
                self._deliver_held()
                self._handle(packet)
        self._deliver_held()

    def _handle(self, packet: object) -> None:
        match packet:
            case Heartbeat(is_good, stream, received):
                self.channel.accept_acknowledgement(stream, received)
                self._is_peer_satisfied = is_good
                if is_good:
                    self._offer()
                else:
                    self._report(_SUSPECTED, "suspected by the peer")
            case Hello():
                was_new = self.channel.peer_incarnation != packet.incarnation
                if not self.channel.accept_hello(packet):
                    self._close("older incarnation")
                    return
                self._is_shaken = True
                if was_new:
                    self._held.clear()
                self._send_now(self.channel.make_loss(self._owner.last_sent))
                if not self.waits_for_clock:
                    self._answered(0)
            case Loss():
                self._held.append(packet)
            case Offer(clock, sites):
                connection = self._connection
                self._owner.unite(sites)
                self._answer(clock, connection)
            case Answer(clock):
                self._is_offered = False
                self._answered(clock)

    # ----------------------------------------------------------------- of the states

    @property
    def _is_member(self) -> bool:
        return self._peer in self._owner.members

    @property
    def _is_good(self) -> bool:
        return self._bad_until is None and self._is_peer_satisfied and not self._is_silent

    def _offer(self) -> None:
        if self._is_good and self.state is not _CONNECTED and not self._is_offered:
            self._is_offered = True
            clock = self._owner.make_offer(self._peer)
            self._send_now(Offer(clock, dict(self._owner.members.records)))

    def _answer(self, clock: int, connection: Connection | None) -> None:
        if connection is not self._connection or self.is_stopped:
            return
        answer = self._owner.answer_offer(self._peer, clock)
        if answer is None:
            self._loop.call_later(_AGAIN, self._answer, clock, connection)
        else:
            self._send_now(Answer(answer))

    def _answered(self, clock: int) -> None:
        if not (self._is_good and self._is_shaken) or self.state is _CONNECTED:
            return
        if not self._owner.accept_answer(self._peer, clock):
            self._offer()
            return
        self._send_unsent()
        self._deliver_held()

    def _deliver_held(self) -> None:
        if self.state is not _DISCONNECTED:
            held, self._held = self._held, []
            if held:
                self._owner.receive(self._peer, held)

    def _report(self, state: LinkState, reason: str) -> None:
        if state is _SUSPECTED:
            if self.state is not _CONNECTED:
                return
            self._suspected_at = self._loop.now
        self.state = state
        self._owner.report_state(self._peer, state, reason)
        if state is _DISCONNECTED and not self._keeps_packets:
            self.channel.drop_packets()

    def _lose(self, reason: str) -> None:
        self._connection = None
        self._is_shaken = self._is_silent = self._is_offered = False
        self._bad_until, self._is_peer_satisfied = None, True
        self._report(_SUSPECTED, reason)

    def _close(self, reason: str) -> None:
        if self._connection is not None:
            self._connection.close(self._name)
        self._lose(reason)
        self._dial_at = self._loop.now

    def _send_unsent(self) -> None:
        for data in self.channel.take_unsent(self._loop.now):
            self._send_now(data)

    def _send_heartbeat(self) -> None:
        """Also acknowledge, which Robust P2P does with each packet."""
        self._beat_at = self._loop.now + self._timers.heartbeat
        self._send_now(Heartbeat(self._bad_until is None, *self.channel.received))

    def _send_now(self, packet: object) -> None:
        if self._connection is not None:
            self._connection.send(self._name, packet)

    # ----------------------------------------------------------------- of the timers

    def _check(self) -> None:
        """Do what is due, and plan the next check."""
        if self.is_stopped:
            return
        now, timers = self._loop.now, self._timers
        if self.state is _SUSPECTED and now >= self._suspected_at + timers.suspect:
            self._report(_DISCONNECTED, "suspected for too long")
        if self._connection is not None:
            if not self._is_shaken:
                if now >= self._attempt_end:
                    self._close("attempt given up")
            else:
                self._check_connection(now)
        if self._connection is None and self._name < self._peer and now >= self._dial_at:
            self._dial_at = now + timers.reconnect
            if self._is_member:
                self._network.dial(self._name, self._peer)
        time = self._next_check()
        if self._checked_at <= now or time < self._checked_at:
            self._checked_at = time
            self._loop.call_at(time, self._check_planned, time)

    def _check_planned(self, time: float) -> None:
        if time == self._checked_at:
            self._checked_at = -1.0
            self._check()

    def _check_connection(self, now: float) -> None:
        timers = self._timers
        if self._bad_until is not None and now >= self._bad_until:
            self._bad_until = None
            self._send_heartbeat()
            self._offer()
        if now >= self._heard_at + timers.liveness and not self._is_silent:
            self._is_silent = True
            self._report(_SUSPECTED, "silent")
        if now >= self._heard_at + timers.liveness + timers.silence:
            self._close("silent for too long")
        elif now >= self._beat_at:
            self._send_heartbeat()
            sent_at = self.channel.oldest_sent_at
            if sent_at is not None and now > sent_at + timers.liveness and not self._is_silent:
                # The other direction is silent, and the peer may not notice.
                self._close("not acknowledged")

    def _next_check(self) -> float:
        timers = self._timers
        times = []
        if self.state is _SUSPECTED:
            times.append(self._suspected_at + timers.suspect)
        if self._connection is None:
            times.append(self._dial_at if self._name < self._peer else self._loop.now + 60.0)
        elif not self._is_shaken:
            times.append(self._attempt_end)
        else:
            silent = timers.silence if self._is_silent else 0.0
            times += [self._heard_at + timers.liveness + silent, self._beat_at]
            if self._bad_until is not None:
                times.append(self._bad_until)
        return min(times)
