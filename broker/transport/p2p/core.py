"""The state of one end of p2p: which peer, which connection, what is due.

A connection goes DOWN -> GREETING (our RESUME is sent) -> OPEN (the peer's has come) -> DOWN.
`docs/protocols/p2p.md` has the table of what a RESUME means, and the reasons.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from zope.interface import implementer

from broker.errors import BrokerError, PeerSilent, ProtocolError, VersionMismatch
from broker.transport.effects import (
    DeliverUp,
    Effect,
    Failed,
    Peer,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import ILayerCore
from broker.transport.p2p import wire
from broker.transport.p2p.receiver import Receiver
from broker.transport.p2p.sender import Sender
from broker.transport.view import LinkState, View


class Connection(enum.Enum):
    """The state of the present connection."""

    DOWN = "down"
    HANDSHAKE = "greeting"
    OPEN = "open"


@implementer(ILayerCore)
class P2PCore:
    """One end. It keeps what it knows of the peer's incarnation, and its buffer, when DOWN."""

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
    ) -> None:
        self.connection = Connection.DOWN
        self.sender = Sender(send_buffer_bytes)
        self.receiver = Receiver(window_bytes, ack_delay, ack_every)
        self.peer = 0  # the peer's incarnation; 0 before the first
        self._incarnation = incarnation
        self._keepalive = keepalive
        self._liveness = liveness
        self._is_known_to_peer = False  # this incarnation of the peer has shown that it knows us
        self._peer_resume = b""  # the peer's RESUME of this connection, as it came
        self._received_at = 0.0
        self._ping_at = 0.0
        self._reported_writable = True

    # ----------------------------------------------------------------- ILayerCore

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        """Buffer messages and send as many as the credit allows. Raises `Overloaded`."""
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

    def receive(self, packets: Sequence[bytes], peer: Peer | None, now: float) -> list[Effect]:
        """Take a batch of packets; the messages in it are delivered as one batch."""
        if self.connection is Connection.DOWN:
            return []
        self._received_at = now
        effects: list[Effect] = []
        messages: list[bytes] = []
        trouble: BrokerError | None = None
        sender, receiver = self.sender, self.receiver
        try:
            for packet in packets:
                kind, fields, message = wire.decode_packet(packet)
                if kind == wire.RESUME:
                    effects += self._receive_resume(packet, fields, now)
                    continue
                if self.connection is not Connection.OPEN:
                    raise ProtocolError(f"{wire.NAMES[kind]} came before RESUME")
                # Only an end that has our RESUME sends anything but its own.
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
        except (ProtocolError, VersionMismatch) as error:
            trouble = error
        if messages:
            # They are counted as received: they must go up whatever came after them.
            effects.append(DeliverUp(messages))
        if trouble is not None:
            self.connection = Connection.DOWN
            effects.append(Failed(trouble))
        is_due = receiver.ack_at is not None and receiver.ack_at <= now
        if is_due or sender.waiting or sender.is_writable is not self._reported_writable:
            effects += self._flush(now)
        return effects

    def view_changed(self, view: View, now: float) -> list[Effect]:
        """Greet on a new connection; tell of a lost one."""
        if view.state is LinkState.CONNECTED:
            self.connection = Connection.HANDSHAKE
            self._peer_resume = b""
            self._received_at = now
            received, limit = self.receiver.announce_credit()
            said = wire.Resume(
                incarnation=self._incarnation,
                known=self.peer,
                received=received,
                limit=limit,
                window=self.receiver.window_bytes,
            )
            return [SendDown([wire.encode_resume(said)])]
        if view.state is LinkState.DISCONNECTED:
            self.connection = Connection.DOWN
        return [ViewChanged(view)]

    def consumed(self, count: int, now: float) -> list[Effect]:
        """Give credit for `count` messages back to the peer."""
        receiver = self.receiver
        receiver.release_credit(count, now)
        is_due = receiver.ack_at is not None and receiver.ack_at <= now
        return self._flush(now) if is_due else []

    def handle_timeout(self, now: float) -> list[Effect]:
        """Give up a silent peer; ping; send a delayed acknowledgement."""
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
        """The earliest of the three deadlines of a connection."""
        if self.connection is Connection.DOWN:
            return None
        due = self._received_at + self._liveness
        if self.connection is Connection.OPEN:
            due = min(due, self._ping_at)
            ack_at = self.receiver.ack_at
            if ack_at is not None:
                due = min(due, ack_at)
        return due

    # ----------------------------------------------------------------- packets

    def _receive_ping(self, highest: int, now: float) -> None:
        if highest > self.receiver.received:
            raise ProtocolError(
                f"the peer has sent message {highest}, and {self.receiver.received} "
                "is the last one received: some are missing"
            )
        self.receiver.ack_at = now

    def _receive_resume(self, packet: bytes, fields: tuple[int, ...], now: float) -> list[Effect]:
        if self.connection is Connection.OPEN:
            if packet == self._peer_resume:
                return []
            raise ProtocolError("a second RESUME on one connection")
        said = wire.decode_resume(fields)
        if said.version != wire.VERSION:
            raise VersionMismatch(
                f"the peer speaks version {said.version} of p2p, this end {wire.VERSION}"
            )
        knows_us = said.known == self._incarnation
        undelivered = 0
        resumed = False
        if said.incarnation != self.peer:
            if knows_us and said.received:
                raise ProtocolError(f"a new peer has received {said.received} messages already")
            if self.peer:
                undelivered = self.sender.reset()
                self.receiver.reset(now)
            self.peer = said.incarnation
            self._is_known_to_peer = False
        elif knows_us:
            self.sender.rewind(said.received)
            resumed = True
        elif self._is_known_to_peer:
            # It knew us and does not any more: it will start from nothing, and so do we.
            undelivered = self.sender.reset()
            self.receiver.reset(now)
            self._is_known_to_peer = False
        else:
            # Our RESUME never reached it on the connections before: nothing has been received.
            self.sender.rewind(0)
            resumed = True
        self._is_known_to_peer = self._is_known_to_peer or knows_us
        self.sender.peer_window = said.window
        # A limit that was meant for another incarnation says nothing: an ACK will follow.
        self.sender.credit_limit = said.limit if knows_us or not said.known else 0
        self.connection = Connection.OPEN
        self._peer_resume = packet
        self._ping_at = now + self._keepalive
        view = View(LinkState.CONNECTED, resumed=resumed, undelivered=undelivered)
        return [ViewChanged(view)]

    # ----------------------------------------------------------------- sending

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
