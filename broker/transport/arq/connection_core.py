"""One connection over datagrams: reliable, in order, once, with notice of its end (M6, M9, A20)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.errors import BrokerError, NotConnected, PeerSilent, ProtocolError
from broker.transport.arq.counters import ArqCounters
from broker.transport.arq.link_mac import IMac
from broker.transport.arq.receive_window import ReceiveWindow
from broker.transport.arq.sender import Sender
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.wire import (
    BYE,
    DATA,
    FEEDBACK,
    MIN_DATAGRAM_BYTES,
    POLL,
    Feedback,
    Reason,
    decode_data,
    decode_feedback,
    decode_head,
    decode_numbered,
    decode_reason,
    encode_bye,
    encode_feedback,
)
from broker.transport.effects import DeliverUp, Failed, SendDown, WritableChanged
from broker.transport.socket.framing import FrameDecoder

#: Seconds.
_FIRST_REQUEST_INTERVAL = 0.02
_MAX_REQUEST_INTERVAL = 0.5


@attrs.frozen
class Ended:
    """Everything sent before the orderly end was received."""


Effect: TypeAlias = SendDown | DeliverUp | WritableChanged | Failed | Ended


@attrs.define
class DatagramCounts:
    received: int = 0
    #: Damaged, written without the key, or replayed.
    dropped: int = 0


class ConnectionCore:
    """The sans-I/O core of one connection.

    `room` is the peer's credit, in datagrams, before its first FEEDBACK. The last effect is
    `Failed` or `Ended`; then `final_bye` answers every late datagram.
    """

    def __init__(
        self,
        settings: ArqSettings,
        mac: IMac,
        own_id: int,
        peer_id: int,
        room: int,
        now: float,
        max_frame: int,
    ) -> None:
        self.own_id = own_id
        self.peer_id = peer_id
        self.is_over = False
        self.is_writable = True
        #: The peer has the key.
        self.is_confirmed = False
        self.final_bye: bytes | None = None
        self.datagram_counts = DatagramCounts()
        self.decoder = FrameDecoder(max_frame)
        self.sender = Sender(settings, mac, peer_id, room, now)
        self.receive_window: ReceiveWindow[bytes] = ReceiveWindow(
            settings.window, settings.reorder_delay
        )
        self._settings = settings
        self._mac = mac
        self._is_reading = False
        self._is_closing = False
        self._received_at = now
        self._polled_at = now
        self._highest = 0  # highest number received
        self._highest_at = now
        self._highest_count = 0  # of datagrams, when the highest number came
        self._unacked = 0  # since the last FEEDBACK
        self._feedback_at: float | None = None
        self._request_interval = _FIRST_REQUEST_INTERVAL
        self._sent_limit = self.receive_window.limit
        self._sent_received = 0
        self._is_proving_key = False  # until the peer answers
        self._is_peer_gone = False  # in good order
        self._peer_reason: Reason | None = None

    @property
    def counters(self) -> ArqCounters:
        window = self.receive_window
        return ArqCounters(
            lost=self.sender.lost,
            repeated=self.sender.retransmitted,
            received=self.datagram_counts.received,
            duplicate=window.duplicates,
            beyond=window.beyond,
            forged=self.datagram_counts.dropped - self._mac.replayed,
            replayed=self._mac.replayed,
        )

    def submit(self, packets: Sequence[bytes]) -> list[Effect]:
        """Raises ValueError for an empty packet."""
        self.sender.submit(packets)
        if self.is_writable and self._buffer_fill() > 1 / 2:
            self.is_writable = False
            return [WritableChanged(False)]
        return []

    def prove_key(self, now: float) -> list[Effect]:
        """Prove the key to the peer; repeated until it answers."""
        self._is_proving_key = True
        return self._send_effects([self.sender.create_poll(now)])

    def flush(self, now: float) -> list[Effect]:
        return [] if self.is_over else self._send_effects(self.sender.take_datagrams(now))

    def set_reading(self, reading: bool, now: float) -> list[Effect]:
        """Deliver received packets, or hold them back until the peer stops at a full window."""
        self._is_reading = reading
        if self.is_over or not reading:
            return []
        effects = self._deliver()
        if (
            not self.is_over
            and self.receive_window.limit - self._sent_limit > self._settings.window // 4
        ):
            effects += self._send_effects([self._create_feedback(now)])
        return effects

    def close(self, now: float) -> list[Effect]:
        """Send everything, then end; deliver nothing more."""
        self._is_closing = True
        self._is_reading = True
        self.sender.end_stream()
        return [*self._deliver(), *self.flush(now)]

    def abort(self) -> list[Effect]:
        return [] if self.is_over else self._end(Reason.RESET)

    def receive(self, datagrams: Sequence[bytes], now: float) -> list[Effect]:
        """Unauthenticated and replayed datagrams are only counted."""
        remove_tag = self._mac.remove_tag
        try:
            is_verified = answer = False
            for datagram in datagrams:
                contents = remove_tag(datagram) if len(datagram) >= MIN_DATAGRAM_BYTES else None
                if contents is None:
                    self.datagram_counts.dropped += 1
                    continue
                is_verified = True
                answer |= self._receive_datagram(contents, now)
                if self._peer_reason is not None:
                    return self._end_by_peer(self._peer_reason)
        except BrokerError as error:
            return self._fail(error)
        if not is_verified:
            return []
        self._received_at = self._polled_at = now
        self.is_confirmed = True
        effects = self._deliver()
        return effects if self.is_over else effects + self._respond(answer, now)

    def handle_timeout(self, now: float) -> list[Effect]:
        if self.is_over or self._is_peer_gone:
            return []
        if now >= self._received_at + self._settings.liveness:
            silent = f"no datagram arrived for {self._settings.liveness:g} seconds"
            return self._fail(PeerSilent(silent))
        self._mac.rotate(now)
        datagrams: list[bytes] = []
        if self._feedback_at is not None and now >= self._feedback_at:
            self._request_interval = min(2 * self._request_interval, _MAX_REQUEST_INTERVAL)
            datagrams.append(self._create_feedback(now))
        datagrams += self.sender.take_datagrams(now)
        poll_at = self._poll_at()
        next_poll = self._polled_at + self._settings.poll
        if now >= next_poll or (poll_at is not None and now >= poll_at):
            self._polled_at = now
            datagrams.append(self.sender.create_poll(now))
        return self._send_effects(datagrams)

    def next_timeout(self) -> float | None:
        if self.is_over or self._is_peer_gone:
            return None
        due = min(
            self._polled_at + self._settings.poll, self._received_at + self._settings.liveness
        )
        for other in (self._feedback_at, self.sender.next_send_at(), self._poll_at()):
            if other is not None and other < due:
                due = other
        return due

    def _poll_at(self) -> float | None:
        return self.sender.next_poll_at(self._is_proving_key and not self.is_confirmed)

    def _receive_datagram(self, datagram: bytes, now: float) -> bool:
        """Return True if the peer needs an answer at once."""
        kind, _ = decode_head(datagram)
        if kind == DATA:
            data = decode_data(datagram)
            self.datagram_counts.received += 1
            if data.number > self._highest:
                self._highest, self._highest_at = data.number, now
                self._highest_count = self.datagram_counts.received
            self._unacked += 1
            # The peer repeats if a FEEDBACK was lost or is late.
            return not self.receive_window.insert(data.number, data.piece, now)
        if kind == FEEDBACK:
            self.sender.receive_feedback(decode_feedback(datagram), now)
            return False
        if kind == POLL:
            highest, _ = decode_numbered(datagram)
            self.receive_window.mark_sent_until(highest, now)
            return True
        if kind == BYE:
            reason = decode_reason(datagram)
            if reason is not Reason.DONE or self._is_closing or not self._is_complete():
                self._peer_reason = reason
            # Otherwise the user has still to read the rest.
            self._is_peer_gone = True
            return False
        raise ProtocolError(f"a datagram of kind {kind} within a connection")

    def _is_complete(self) -> bool:
        return not self.receive_window.missing and self.receive_window.last_ready() == b""

    def _deliver(self) -> list[Effect]:
        if not self._is_reading:
            return []
        try:
            return self._deliver_fragments(self.receive_window.take_ready())
        except BrokerError as error:
            return self._fail(error)

    def _deliver_fragments(self, pieces: list[bytes]) -> list[Effect]:
        ended = bool(pieces) and b"" in pieces
        if self._is_closing:
            return self._end(Reason.DONE) if ended else []
        effects: list[Effect] = []
        if pieces:
            # Without packets this reports a part of one.
            effects.append(DeliverUp(self.decoder.feed(b"".join(pieces))))
        if ended:
            if self.decoder.close():
                raise ProtocolError("the connection was closed in the middle of a packet")
            effects += self._end(Reason.DONE)
        return effects

    def _respond(self, answer: bool, now: float) -> list[Effect]:
        datagrams: list[bytes] = []
        window = self.receive_window
        if window.received > self._sent_received:
            self._request_interval = _FIRST_REQUEST_INTERVAL
        if answer or self._unacked >= self._settings.ack_every:
            datagrams.append(self._create_feedback(now))
        elif self._unacked:
            self._schedule_feedback(now + self._settings.ack_delay)
            if window.missing:
                self._schedule_feedback(now + self._settings.reorder_delay)
        datagrams += self.sender.take_datagrams(now)
        effects = self._send_effects(datagrams)
        if not self.is_writable and self._buffer_fill() < 1 / 4:
            self.is_writable = True
            effects.append(WritableChanged(True))
        if self._is_closing and self.sender.is_end_acknowledged:
            effects += self._end(Reason.DONE)
        return effects

    def _schedule_feedback(self, when: float) -> None:
        if self._feedback_at is None or when < self._feedback_at:
            self._feedback_at = when

    def _create_feedback(self, now: float) -> bytes:
        window = self.receive_window
        missing = window.missing_ranges(now)
        self._unacked = 0
        self._sent_limit = window.limit
        self._sent_received = window.received
        self._feedback_at = now + self._request_interval if missing else None
        late_at = window.next_missing_at(now)
        if late_at is not None:
            self._schedule_feedback(late_at)
        report = Feedback(
            *(window.received, window.limit, self._highest),
            now - self._highest_at,
            self._highest_count,
            tuple(missing),
        )
        return self._mac.add_tag(encode_feedback(self.peer_id, report))

    def _buffer_fill(self) -> float:
        return self.sender.buffered_bytes / self._settings.send_buffer_bytes

    def _send_effects(self, datagrams: list[bytes]) -> list[Effect]:
        return [SendDown(datagrams)] if datagrams else []

    def _end(self, reason: Reason) -> list[Effect]:
        self.is_over = True
        self.final_bye = self._mac.add_tag(encode_bye(self.peer_id, reason))
        effects: list[Effect] = [SendDown([self.final_bye])]
        if reason is Reason.DONE:
            effects.append(Ended())
        return effects

    def _fail(self, error: BrokerError) -> list[Effect]:
        return [*self._end(Reason.RESET), Failed(error)]

    def _end_by_peer(self, reason: Reason) -> list[Effect]:
        self.is_over = True
        if reason is Reason.DONE and self._is_closing:
            return [Ended()]
        text = (
            "it was reset by the other end"
            if reason is Reason.RESET
            else "the other end closed it before all data had arrived"
        )
        return [Failed(NotConnected(f"connection lost: {text}"))]
