"""The core of one end of p2p.

`docs/protocols/p2p.md` has the table of RESUMEs, and the reasons.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

import attrs
from zope.interface import implementer

from broker.errors import (
    BrokerError,
    IncarnationRefused,
    PeerSilent,
    ProtocolError,
    VersionMismatch,
)
from broker.queue_memory import HeldBytes
from broker.transport.effects import (
    DeliverUp,
    Effect,
    Failed,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import IBufferingCore
from broker.transport.monitor.suspicion import Suspicion
from broker.transport.p2p import wire
from broker.transport.p2p.receiver import Receiver
from broker.transport.p2p.sender import Sender
from broker.transport.view import LinkState, View


class Connection(enum.Enum):
    """In HANDSHAKE only this end has sent its RESUME. SUSPENDED is OPEN, and sends nothing."""

    DOWN = "down"
    HANDSHAKE = "handshake"
    OPEN = "open"
    SUSPENDED = "suspended"


@implementer(IBufferingCore)
class P2PCore:
    """One end. It keeps its buffer and the peer's incarnation while DOWN.

    Above a monitor it has no timers but that of acknowledgements. It begins a connection with the
    monitor's notice of it. While the monitor does not report CONNECTED it only buffers, and
    delivers messages of a suspected peer.
    """

    def __init__(
        self,
        *,
        incarnation: int,
        window_bytes: int,
        send_buffer_bytes: int,
        keepalive: float,
        liveness: float,
        ack_delay: float,
        ack_every: int,
        suspect: float,
        is_monitored: bool = False,
        held: HeldBytes | None = None,
    ) -> None:
        self.connection = Connection.DOWN
        self.sender = Sender(send_buffer_bytes, held)
        self.receiver = Receiver(window_bytes, ack_delay, ack_every)
        self.peer = 0
        self._incarnation = incarnation
        self._keepalive = keepalive
        self._liveness = liveness
        self._is_known_to_peer = False
        self._peer_resume = b""
        self._received_at = 0.0
        self._ping_at = 0.0
        self._reported_writable = True
        self._suspicion = Suspicion(suspect)
        # Of the last connection.
        self._error: BrokerError | None = None
        self._is_monitored = is_monitored
        self._is_suspended = is_monitored
        # Messages from a disconnected peer wait until it is connected: at most those of the window.
        self._is_disconnected = is_monitored
        self._held: list[bytes] = []
        self._is_reset = False
        # The result of a reset, and of RESUMEs that came while suspended.
        self._resumed_view: View | None = None

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        """Send messages, and buffer those beyond the credit. Raises `Overloaded`."""
        sender = self.sender
        sent = sender.submit(messages, is_open=self.connection is Connection.OPEN)
        if not sent:
            return self._flush(now)
        received, limit = self.receiver.announce_credit()
        self._ping_at = now + self._keepalive
        first = sender.sent - len(messages) + 1
        effects: list[Effect] = [SendDown(wire.encode_data(first, received, limit, messages))]
        if not sender.is_writable and self._reported_writable:
            self._reported_writable = False
            effects.append(WritableChanged(False))
        return effects

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        """Process packets; their messages are delivered as one batch."""
        if self.connection is Connection.DOWN:
            return []
        self._received_at = now
        effects: list[Effect] = []
        messages: list[bytes] = []
        error_found: BrokerError | None = None
        sender, receiver = self.sender, self.receiver
        try:
            for packet in packets:
                kind, fields, message = wire.decode_packet(packet)
                if kind == wire.RESUME:
                    effects += self._receive_resume(packet, fields, now)
                    continue
                if self.connection is Connection.HANDSHAKE:
                    raise ProtocolError(f"{wire.NAMES[kind]} came before RESUME")
                # An end sends other packets only after the other's RESUME.
                self._is_known_to_peer = True
                if kind == wire.PING:
                    self._receive_ping(fields[0], now)
                    continue
                received, limit = fields[-2:]
                if received > sender.acked:
                    sender.acknowledge(received)
                if limit > sender.credit_limit:
                    sender.credit_limit = limit
                if kind == wire.DATA and receiver.accept_message(fields[0], len(message), now):
                    messages.append(message)
        except (ProtocolError, VersionMismatch, IncarnationRefused) as error:
            error_found = error
        if messages:
            if self._is_disconnected:
                self._held += messages
            else:
                # Received messages are delivered even before an error.
                effects.append(DeliverUp(messages))
        if error_found is not None:
            self.connection = Connection.DOWN
            effects.append(Failed(error_found))
        is_due = receiver.ack_at is not None and receiver.ack_at <= now
        if is_due or sender.waiting or sender.is_writable is not self._reported_writable:
            effects += self._flush(now)
        return effects

    def view_changed(self, view: View, now: float) -> list[Effect]:
        if self._is_monitored:
            return self._monitor_changed(view, now)
        if view.state is LinkState.CONNECTED:
            return self._begin_handshake(now)
        if view.state is LinkState.DISCONNECTED:
            self.connection = Connection.DOWN
            self._suspicion.suspect("connection lost", now)
            self._error = view.error
            view = View(self._suspicion.state, error=view.error)
        return [ViewChanged(view)]

    def _begin_handshake(self, now: float) -> list[Effect]:
        self.connection = Connection.HANDSHAKE
        self._peer_resume = b""
        self._received_at = now
        received, limit = self.receiver.announce_credit()
        resume = wire.Resume(
            incarnation=self._incarnation,
            known=self.peer,
            received=received,
            limit=limit,
            window=self.receiver.window_bytes,
        )
        return [SendDown([wire.encode_resume(resume)])]

    def _monitor_changed(self, view: View, now: float) -> list[Effect]:
        """Begin with a new connection, stop to send, or go on."""
        if view.is_new_connection:
            if view.is_restarted:
                self._drop_messages(now)
            return [*self._begin_handshake(now), *self._flush(now)]
        self._is_suspended = view.state is not LinkState.CONNECTED
        if self._is_suspended:
            self.sender.reserve_room(is_open=False)
            if self.connection is Connection.OPEN:
                self.connection = Connection.SUSPENDED
            if view.state is LinkState.DISCONNECTED:
                self._is_disconnected = True
            return [ViewChanged(view)]
        if self.connection is not Connection.SUSPENDED:
            # RESUME has not come yet.
            return []
        result, self._resumed_view = self._resumed_view or attrs.evolve(view, resumed=True), None
        return [*self._report_connected(result), *self._flush(now)]

    def _report_connected(self, view: View) -> list[Effect]:
        self.connection = Connection.OPEN
        if self._is_monitored:
            self.sender.reserve_room(is_open=True)
        self._is_disconnected = False
        held, self._held = self._held, []
        return [ViewChanged(view), DeliverUp(held)] if held else [ViewChanged(view)]

    def _drop_messages(self, now: float) -> None:
        """Drop messages for an earlier process of the peer, and of it, before those of the new
        one."""
        self.receiver.release_credit(len(self._held), now)
        self._held = []
        before = 0 if self._resumed_view is None else self._resumed_view.undelivered
        undelivered = before + self.sender.reset()
        self._resumed_view = View(LinkState.CONNECTED, undelivered=undelivered)
        self._is_reset = True

    def drop_unsent(self, now: float) -> list[Effect]:
        if self.connection is not Connection.OPEN:
            self.sender.drop_waiting()
        return self._flush(now)

    def release_memory(self) -> None:
        self.sender.release_memory()

    def consumed(self, count: int, now: float) -> list[Effect]:
        receiver = self.receiver
        receiver.release_credit(count, now)
        is_due = receiver.ack_at is not None and receiver.ack_at <= now
        return self._flush(now) if is_due else []

    def handle_timeout(self, now: float) -> list[Effect]:
        give_up_at = self._suspicion.give_up_at
        if give_up_at is not None and now >= give_up_at:
            self._suspicion.give_up(now)
            return [ViewChanged(View(LinkState.DISCONNECTED, error=self._error))]
        if self._is_monitored:
            return self._flush(now)
        if self.connection is Connection.DOWN:
            return []
        if now >= self._received_at + self._liveness:
            self.connection = Connection.DOWN
            return [Failed(PeerSilent(f"the peer was silent for {self._liveness:g} seconds"))]
        effects = self._flush(now)
        if self.connection is Connection.OPEN and now >= self._ping_at:
            self._ping_at = now + self._keepalive
            effects.append(SendDown([wire.encode_ping(self.sender.sent)]))
        return effects

    def next_timeout(self) -> float | None:
        if self._is_monitored:
            return self.receiver.ack_at if self.connection is Connection.OPEN else None
        if self.connection is Connection.DOWN:
            return self._suspicion.give_up_at
        due = self._received_at + self._liveness
        other = self._suspicion.give_up_at
        if self.connection is Connection.OPEN:
            due = min(due, self._ping_at)
            other = self.receiver.ack_at
        return due if other is None else min(due, other)

    def _receive_ping(self, highest: int, now: float) -> None:
        if highest > self.receiver.received:
            raise ProtocolError(
                f"the peer has sent message {highest}, and {self.receiver.received} "
                "is the last one received: some are missing"
            )
        self.receiver.ack_at = now

    def _receive_resume(self, packet: bytes, fields: tuple[int, ...], now: float) -> list[Effect]:
        if self.connection is not Connection.HANDSHAKE:
            if packet == self._peer_resume:
                return []
            raise ProtocolError("a second RESUME on one connection")
        resume = wire.decode_resume(fields)
        if resume.version != wire.VERSION:
            raise VersionMismatch(
                f"the peer speaks version {resume.version} of p2p, this end {wire.VERSION}"
            )
        knows_us = resume.known == self._incarnation
        undelivered = 0
        resumed = False
        if self._is_monitored and resume.incarnation < self.peer:
            raise IncarnationRefused(
                f"the peer has the incarnation {resume.incarnation}, and had {self.peer} before"
            )
        if resume.incarnation != self.peer:
            if knows_us and resume.received:
                raise ProtocolError(
                    f"the peer is new and claims to have received {resume.received} messages"
                )
            if self.peer:
                undelivered = 0 if self._is_reset else self.sender.reset()
                self.receiver.reset(now)
            self._is_reset = False
            self.peer = resume.incarnation
            self._is_known_to_peer = False
        elif knows_us:
            self.sender.rewind(resume.received)
            resumed = True
        elif self._is_known_to_peer:
            # The peer has lost its state: both ends start anew.
            undelivered = self.sender.reset()
            self.receiver.reset(now)
            self._is_known_to_peer = False
        else:
            # The peer has received nothing.
            self.sender.rewind(0)
            resumed = True
        self._is_known_to_peer = self._is_known_to_peer or knows_us
        self.sender.peer_window = resume.window
        # A limit for another incarnation does not apply: an ACK follows.
        self.sender.credit_limit = resume.limit if knows_us or not resume.known else 0
        self._suspicion.connect(now)
        self._peer_resume = packet
        self._ping_at = now + self._keepalive
        if self._resumed_view is not None:
            resumed = resumed and self._resumed_view.resumed
            undelivered += self._resumed_view.undelivered
            self._resumed_view = None
        since = now if self._is_monitored else 0.0
        view = View(LinkState.CONNECTED, resumed, undelivered, since=since)
        if self._is_suspended:
            self.connection, self._resumed_view = Connection.SUSPENDED, view
            return []
        return self._report_connected(view)

    def _flush(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        sender, receiver = self.sender, self.receiver
        if self.connection is Connection.OPEN:
            first, messages = sender.take_affordable() if sender.waiting else (0, [])
            if messages:
                received, limit = receiver.announce_credit()
                self._ping_at = now + self._keepalive
                effects.append(SendDown(wire.encode_data(first, received, limit, messages)))
            elif receiver.ack_at is not None and receiver.ack_at <= now:
                effects.append(SendDown([wire.encode_ack(*receiver.announce_credit())]))
        if sender.is_writable is not self._reported_writable:
            self._reported_writable = sender.is_writable
            effects.append(WritableChanged(self._reported_writable))
        return effects
