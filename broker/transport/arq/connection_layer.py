"""Error correction, congestion control and fragmentation as a layer, with its own handshake."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import BrokerError, Closed, NotConnected, PeerSilent, VersionMismatch
from broker.transport.arq import connection_core
from broker.transport.arq.connection_core import ConnectionCore, Ended
from broker.transport.arq.counters import HandshakeCounts
from broker.transport.arq.handshake import (
    NO_SECRET,
    Acceptor,
    Dialler,
    DialStep,
    Entropy,
    HandshakeRequest,
    LinkSecret,
    accept_request,
)
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.wire import (
    DATA,
    HELLO,
    MIN_DATAGRAM_BYTES,
    OPEN,
    Reason,
    decode_head,
)
from broker.transport.effects import (
    Consumed,
    Effect,
    Failed,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.layer import ILinkLayer, LinkPassThrough, Property
from broker.transport.socket.contract import DEFAULT_MAX_FRAME
from broker.transport.view import LinkState, View


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class ConnectionLayer:
    """A connection of `docs/protocols/arq.md` with one peer, over packets that may be lost.

    `settings.datagram_bytes` is the largest packet for the layer below. An end with `dials` opens
    the connection when its channel is attached. Channels of strangers need False: their addresses
    may be forged. If both dial, the connection with the higher client id remains.

    Messages before CONNECTED are dropped and counted; an empty message raises ValueError. A user
    that ignores `writable_changed` makes the queue grow without bound, as on a TCP channel.
    """

    dials: bool
    settings: ArqSettings = ArqSettings(datagram_bytes=1300)
    max_message: int = DEFAULT_MAX_FRAME
    entropy: Entropy = secrets.token_bytes
    secret: LinkSecret = NO_SECRET

    name: ClassVar[str] = "arq"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    provides: ClassVar[frozenset[Property]] = frozenset(
        {Property.ANY_SIZE, Property.FIFO, Property.RELIABLE, Property.OUTAGE_NOTICE}
    )
    #: A packet is consumed when it is received.
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.RESUMABLE, Property.BACKPRESSURE})

    def create_core(self) -> ConnectionLayerCore:
        return ConnectionLayerCore(self)


@attrs.define
class _HalfOpen:
    """A connection whose dialler has not proven its key yet."""

    connection: ConnectionCore
    accept: bytes
    until: float


class ConnectionLayerCore(LinkPassThrough):
    """At most one dial, one half-open connection, and one connection."""

    def __init__(self, layer: ConnectionLayer) -> None:
        self.counts = HandshakeCounts()
        #: Messages without a connection.
        self.dropped = 0
        self.connection: ConnectionCore | None = None
        self._layer = layer
        self._settings = layer.settings
        self._acceptor = Acceptor(layer.entropy, self.counts, layer.secret)
        self._dialler: Dialler | None = None
        self._dial_until = 0.0
        self._half_open: _HalfOpen | None = None
        self._flush_at: float | None = None

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        if self.connection is None:
            self.dropped += len(packets)
            return []
        # Messages of one turn leave together.
        self._flush_at = now
        return self._convert(self.connection.submit(packets))

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        effects: list[Effect] = [Consumed(len(packets))]
        datagrams: list[bytes] = []
        for datagram in packets:
            if len(datagram) < MIN_DATAGRAM_BYTES:
                self.counts.malformed += 1
                continue
            kind, identity = decode_head(datagram)
            if kind >= DATA and self.connection and identity == self.connection.own_id:
                datagrams.append(datagram)
                continue
            try:
                effects += self._receive_unconnected(kind, identity, datagram, now)
            except BrokerError:
                self.counts.malformed += 1
        if datagrams and self.connection is not None:
            effects += self._convert(self.connection.receive(datagrams, now))
        return effects

    def view_changed(self, view: View, now: float) -> list[Effect]:
        if view.state is LinkState.SUSPECTED:
            return []
        if view.state is LinkState.DISCONNECTED:
            # An acceptor had nothing to report before its connection.
            is_reported = self._layer.dials or self.connection is not None
            effects = self._forget()
            return [*effects, ViewChanged(view)] if is_reported else effects
        effects = self._forget()
        # A cookie proves the address of one channel.
        layer = self._layer
        self._acceptor = Acceptor(layer.entropy, self.counts, layer.secret)
        if not self._layer.dials:
            return effects
        client = int.from_bytes(layer.entropy(8), "big") or 1
        dialler = self._dialler = Dialler(
            *(client, layer.entropy, self._settings.window, now, layer.secret)
        )
        self._dial_until = now + self._settings.handshake_timeout
        return [*effects, SendDown([dialler.next_datagram(now)])]

    def consumed(self, count: int, now: float) -> list[Effect]:
        return []

    def handle_timeout(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        dialler, half = self._dialler, self._half_open
        is_unanswered = dialler is not None and now >= self._dial_until
        if half is not None and now >= half.until:
            self._half_open = None
            is_unanswered |= self._layer.dials and self.connection is None
        if is_unanswered:
            self._dialler = None
            effects.append(Failed(PeerSilent("the peer did not answer the handshake")))
        elif dialler is not None and now >= dialler.retry_at:
            effects.append(SendDown([dialler.next_datagram(now)]))
        if self._flush_at is not None and self.connection is not None:
            self._flush_at = None
            effects += self._convert(self.connection.flush(now))
        due = self.connection.next_timeout() if self.connection is not None else None
        if due is not None and now >= due and self.connection is not None:
            effects += self._convert(self.connection.handle_timeout(now))
        return effects

    def next_timeout(self) -> float | None:
        if self._flush_at is not None:
            return self._flush_at
        due: list[float] = []
        if self._dialler is not None:
            due += (self._dial_until, self._dialler.retry_at)
        if self._half_open is not None:
            due.append(self._half_open.until)
        if self.connection is not None:
            connection_due = self.connection.next_timeout()
            if connection_due is not None:
                due.append(connection_due)
        return min(due, default=None)

    def _receive_unconnected(
        self, kind: int, identity: int, datagram: bytes, now: float
    ) -> list[Effect]:
        dialler, half = self._dialler, self._half_open
        if kind >= DATA:
            if half is not None and identity == half.connection.own_id:
                return self._receive_first(half, datagram, now)
            self.counts.unknown_connection += 1
        elif kind in (HELLO, OPEN):
            answer = self._acceptor.receive(datagram, None, now)
            if isinstance(answer, HandshakeRequest):
                return self._accept(answer, now)
            return [] if answer is None else [SendDown([answer])]
        elif dialler is not None and identity == dialler.client:
            return self._receive_answer(dialler, datagram, now)
        else:
            self.counts.malformed += 1
        return []

    def _receive_answer(self, dialler: Dialler, datagram: bytes, now: float) -> list[Effect]:
        step = dialler.receive(datagram, now)
        if step is DialStep.SEND_NOW:
            return [SendDown([dialler.next_datagram(now)])]
        if step is DialStep.REFUSED:
            self._dialler = None
            if dialler.reason is Reason.VERSION:
                return [Failed(VersionMismatch("the peer has another version of arq"))]
            return [Failed(NotConnected("the peer refused the connection"))]
        if step is DialStep.ACCEPTED:
            connection = dialler.create_connection(self._settings, self._layer.max_message, now)
            return [*self._connect(connection, now), *self._convert(connection.prove_key(now))]
        return []

    def _accept(self, request: HandshakeRequest, now: float) -> list[Effect]:
        if self._dialler is not None and self._dialler.client > request.client:
            return []
        self._dialler = None
        half = self._half_open
        if self.connection is not None and self.connection.peer_id == request.client:
            return []  # it is open already
        if half is None or half.connection.peer_id != request.client:
            own_id = int.from_bytes(self._layer.entropy(8), "big") or 1
            connection, accept = accept_request(
                *(self._acceptor, request, own_id, self._layer.entropy),
                *(self._settings, self._layer.max_message, now),
            )
            until = now + self._settings.handshake_timeout
            half = self._half_open = _HalfOpen(connection, accept, until)
        return [SendDown([half.accept])]

    def _receive_first(self, half: _HalfOpen, datagram: bytes, now: float) -> list[Effect]:
        # Nothing is delivered yet.
        effects = self._convert(half.connection.receive([datagram], now))
        if not half.connection.is_confirmed:
            return []
        if half.connection.is_over:
            self._half_open = None
            return []
        return [*self._connect(half.connection, now), *effects]

    def _connect(self, connection: ConnectionCore, now: float) -> list[Effect]:
        """Replace an earlier connection: the peer has begun anew."""
        effects: list[Effect] = []
        if self.connection is not None:
            error = NotConnected("connection lost: the peer has begun a new one")
            effects.append(ViewChanged(View(LinkState.DISCONNECTED, error=error)))
        effects += self._forget()
        self.connection = connection
        effects.append(ViewChanged(View(LinkState.CONNECTED)))
        return effects + self._convert(connection.set_reading(True, now))

    def _forget(self) -> list[Effect]:
        was_writable = self.connection is None or self.connection.is_writable
        self.connection = self._dialler = self._half_open = self._flush_at = None
        return [] if was_writable else [WritableChanged(True)]

    def _convert(self, effects: Sequence[connection_core.Effect]) -> list[Effect]:
        converted: list[Effect] = []
        for effect in effects:
            if isinstance(effect, Ended):
                converted.append(Failed(Closed("the peer closed the connection")))
            else:
                converted.append(effect)
        return converted
