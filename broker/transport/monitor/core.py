"""The core of the connection monitor of one peer (RCM R19-R26).

`docs/protocols/monitor.md` has the tables of states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
from zope.interface import implementer

from broker.errors import (
    BrokerError,
    IncarnationRefused,
    PeerError,
    PeerSilent,
    ProtocolError,
    VersionMismatch,
)
from broker.transport.effects import Consumed, DeliverUp, Effect, Failed, SendDown, ViewChanged
from broker.transport.layer import ClockOffset, IMonitorCore
from broker.transport.monitor import wire
from broker.transport.monitor.connection import Connection
from broker.transport.monitor.owner import ILinkOwner
from broker.transport.monitor.settings import MonitorSettings
from broker.transport.monitor.suspicion import Suspicion
from broker.transport.monitor.wire import Answer, Heartbeat, Hello, Offer
from broker.transport.view import NEGOTIATING, LinkState, View

#: Seconds until an owner is asked again for an answer, or for another offer.
RETRY: Final = 0.05
_LOST: Final = "connection lost"
_CONNECTED, _SUSPECTED = LinkState.CONNECTED, LinkState.SUSPECTED
_DISCONNECTED = LinkState.DISCONNECTED


@implementer(IMonitorCore)
class MonitorCore:
    """The state of a peer: connected, suspected or disconnected, and that of its connection.

    While the owner's offers are exchanged, a disconnected peer is reported as suspected with the
    reason `NEGOTIATING`. So the layers above already keep messages when the owner counts the peer
    as connected.
    """

    def __init__(
        self, incarnation: int, settings: MonitorSettings, owner: ILinkOwner | None
    ) -> None:
        self._incarnation = incarnation
        self._settings = settings
        self._owner = owner
        self._peer_incarnation = 0
        self._connection: Connection | None = None
        self._suspicion = Suspicion(settings.suspect)
        self._is_negotiating = False
        self._due: float | None = None

    # ----------------------------------------------------------------- of the link

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        connection = self._connection
        if connection is None:
            return []
        connection.sent += len(packets)
        return [SendDown(packets)]

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        connection = self._connection
        if connection is None:
            return []
        connection.heard_at = now
        connection.reads += 1
        if connection.is_shaken and connection.silent_since is None:
            for packet in packets:
                if packet[:1] >= wire.FIRST_KIND:
                    break
            else:
                connection.received += len(packets)
                return [DeliverUp(packets)]
        effects = self._receive_mixed(connection, packets, now)
        self._plan()
        return effects

    def view_changed(self, view: View, now: float) -> list[Effect]:
        if view.state is _CONNECTED:
            self._connection = Connection(self._settings, now)
            effects = self._send(Hello(self._incarnation))
            effects.append(self._beat(now))
        else:
            self._connection = None
            self._is_negotiating = False
            reason = _explain_loss(view.error)
            self._suspicion.suspect(reason, now)
            if self.status is _DISCONNECTED and reason != _LOST:
                self._suspicion.reason = reason
            # Each failed attempt is reported.
            effects = [ViewChanged(self._suspicion.view)]
        self._plan()
        return effects

    def consumed(self, count: int, now: float) -> list[Effect]:
        return [Consumed(count)]

    def handle_timeout(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        give_up_at = self._suspicion.give_up_at
        if give_up_at is not None and now >= give_up_at:
            self._suspicion.give_up(now)
            effects.append(self._report_poor())
        connection = self._connection
        try:
            if connection is not None:
                effects += self._check_connection(connection, now)
        except BrokerError as error:
            effects += self._fail(error)
        self._plan()
        return effects

    def next_timeout(self) -> float | None:
        return self._due

    # ----------------------------------------------------------------- of the user

    @property
    def status(self) -> LinkState:
        return self._suspicion.state

    @property
    def clock_offset(self) -> ClockOffset | None:
        connection = self._connection
        return None if connection is None else connection.measurements.clock_offset

    @property
    def round_trip(self) -> float | None:
        """Seconds; None before a measurement."""
        connection = self._connection
        return None if connection is None else connection.measurements.round_trip

    def suspect(self, reason: str, now: float) -> list[Effect]:
        if self._connection is None:
            return []
        self._connection.suspect(reason, now)
        effects = self._judge(now)
        self._plan()
        return effects

    # ----------------------------------------------------------------- packets

    def _receive_mixed(
        self, connection: Connection, packets: Sequence[bytes], now: float
    ) -> list[Effect]:
        effects: list[Effect] = []
        batch: list[bytes] = []
        try:
            for packet in packets:
                connection.received += 1
                if packet[:1] < wire.FIRST_KIND:
                    if not connection.is_shaken:
                        raise ProtocolError("a packet came before HELLO")
                    batch.append(packet)
                else:
                    if batch:
                        effects.append(DeliverUp(batch))
                        batch = []
                    effects += self._handle(connection, wire.decode(packet), now)
        except BrokerError as error:
            # Received packets are delivered even before an error.
            delivered: list[Effect] = [DeliverUp(batch)] if batch else []
            return [*effects, *delivered, *self._fail(error)]
        if batch:
            effects.append(DeliverUp(batch))
        try:
            connection.check_silence(now)
            effects += self._judge(now)
        except BrokerError as error:
            effects += self._fail(error)
        return effects

    def _handle(self, connection: Connection, packet: wire.Packet, now: float) -> list[Effect]:
        if isinstance(packet, Hello):
            return self._accept_hello(connection, packet)
        if not connection.is_shaken:
            raise ProtocolError("a packet of the monitor came before HELLO")
        match packet:
            case Heartbeat():
                is_first = not connection.echo
                connection.accept_heartbeat(packet, self._read_clock(now), now)
                connection.check_quality(now)
                # The echo at once makes the first measurement.
                return [self._beat(now)] if is_first else []
            case Offer():
                return self._answer(connection, packet, now)
            case Answer(number, data):
                if number > connection.offers:
                    raise ProtocolError(f"an answer to offer {number}, which was never sent")
                if connection.offer_at is None or connection.reason or self._owner is None:
                    return []
                if number >= connection.first_offer:
                    if self._owner.accept_answer(data, now):
                        return self._connect(connection, now)
                    connection.offer_at = now + RETRY
        return []

    def _accept_hello(self, connection: Connection, hello: Hello) -> list[Effect]:
        if hello.version != wire.VERSION:
            raise VersionMismatch(
                f"the peer speaks version {hello.version} of the monitor, this end {wire.VERSION}"
            )
        known = self._peer_incarnation
        if hello.incarnation < known:
            raise IncarnationRefused(
                f"the peer has the incarnation {hello.incarnation}, and had {known} before"
            )
        if connection.is_shaken and hello.incarnation != known:
            raise ProtocolError("a second HELLO on one connection")
        self._peer_incarnation = hello.incarnation
        if connection.is_shaken:
            return []
        connection.is_shaken = True
        is_restarted = known not in (0, hello.incarnation)
        view = self._suspicion.view
        return [ViewChanged(attrs.evolve(view, is_new_connection=True, is_restarted=is_restarted))]

    def _answer(self, connection: Connection, offer: Offer, now: float) -> list[Effect]:
        connection.unanswered = None
        data = b"" if self._owner is None else self._owner.answer_offer(offer.data, now)
        if data is not None:
            return self._send(Answer(offer.number, data))
        connection.unanswered = offer.number, offer.data
        connection.answer_at = now + RETRY
        return []

    # ----------------------------------------------------------------- states

    def _judge(self, now: float) -> list[Effect]:
        """Report a peer as suspected, or begin to connect it, as its connection is."""
        connection = self._connection
        if connection is None or not connection.is_shaken:
            return []
        effects: list[Effect] = []
        if connection.own_reason != connection.sent_reason:
            effects.append(self._beat(now))
        if connection.reason:
            return effects + self._leave(connection, connection.reason, now)
        if self.status is not _CONNECTED and connection.offer_at is None:
            # `suspect` does not run while the connection is good.
            self._suspicion.pause(now)
            connection.first_offer = connection.offers + 1
            effects += self._offer(connection, now)
        return effects

    def _offer(self, connection: Connection, now: float) -> list[Effect]:
        if self._owner is None:
            return self._connect(connection, now)
        effects: list[Effect] = []
        if self.status is _DISCONNECTED and not self._is_negotiating:
            self._is_negotiating = True
            effects.append(ViewChanged(View(_SUSPECTED, reason=NEGOTIATING, since=now)))
        connection.offers += 1
        connection.offer_at = now + self._settings.heartbeat
        return effects + self._send(Offer(connection.offers, self._owner.make_offer(now)))

    def _connect(self, connection: Connection, now: float) -> list[Effect]:
        self._suspicion.connect(now)
        self._is_negotiating, connection.offer_at = False, None
        is_resumed, connection.was_connected = connection.was_connected, True
        return [ViewChanged(View(_CONNECTED, resumed=is_resumed, since=now))]

    def _leave(self, connection: Connection, reason: str, now: float) -> list[Effect]:
        """Suspect a connected peer, and end the exchange of offers."""
        suspicion = self._suspicion
        connection.offer_at = None
        if suspicion.suspect(reason, now):
            return [self._report_poor()]
        if reason == suspicion.reason and not self._is_negotiating:
            return []
        suspicion.reason = reason
        return [self._report_poor()]

    def _report_poor(self) -> Effect:
        """Report the status of a peer that is not connected."""
        self._is_negotiating = False
        return ViewChanged(self._suspicion.view)

    # ----------------------------------------------------------------- the connection

    def _check_connection(self, connection: Connection, now: float) -> list[Effect]:
        settings = self._settings
        if not connection.is_shaken and now >= connection.since + settings.reconnect:
            raise PeerSilent(f"no HELLO came within {settings.reconnect:g} seconds")
        effects: list[Effect] = []
        if connection.is_shaken:
            connection.check_silence(now)
            silent_since = connection.silent_since
            if silent_since is not None and now >= silent_since + settings.silence:
                raise PeerSilent(
                    f"the peer was silent for {settings.liveness + settings.silence:g} seconds"
                )
            connection.check_quality(now)
            effects += self._judge(now)
        if now >= connection.beat_at:
            effects.append(self._beat(now))
        if connection.offer_at is not None and now >= connection.offer_at:
            effects += self._offer(connection, now)
        if connection.unanswered is not None and now >= connection.answer_at:
            effects += self._answer(connection, Offer(*connection.unanswered), now)
            if connection.unanswered is None and connection.offer_at is not None:
                # The reason that delayed the answer may have delayed the own connection too.
                effects += self._offer(connection, now)
        return effects

    def _beat(self, now: float) -> Effect:
        connection = self._connection
        assert connection is not None
        connection.beat_at = now + self._settings.heartbeat
        connection.sent_reason = connection.own_reason
        clock = self._read_clock(now)
        number = connection.sent + 1
        beat = Heartbeat(
            number,
            connection.reads,
            connection.echo,
            max(0, round((now - connection.echo_at) * 1e6)) if connection.echo else 0,
            connection.echo_clock,
            clock,
            connection.sent_reason,
        )
        connection.measurements.record_sent(number, clock, now)
        return self._send(beat)[0]

    def _send(self, packet: wire.Packet) -> list[Effect]:
        assert self._connection is not None
        self._connection.sent += 1
        return [SendDown([wire.encode(packet)])]

    def _read_clock(self, now: float) -> int:
        return round(now * 1e6) if self._owner is None else self._owner.read_site_clock(now)

    def _fail(self, error: BrokerError) -> list[Effect]:
        """End the connection. The driver reports its end."""
        self._connection = None
        return [Failed(error)]

    def _plan(self) -> None:
        due = None if self._connection is None else self._connection.next_timeout()
        give_up_at = self._suspicion.give_up_at
        if give_up_at is not None:
            due = give_up_at if due is None else min(due, give_up_at)
        self._due = due


def _explain_loss(error: BrokerError | None) -> str:
    """Return the reason for the end of a connection. Layers above get no errors (RCM R4)."""
    is_broken_rule = isinstance(error, PeerError) and not isinstance(error, PeerSilent)
    return f"{_LOST}: {error.code}" if error is not None and is_broken_rule else _LOST
