"""One connection between a child and a parent, after its handshake (DCP D39, D48-D54).

Both ends keep it alive, send control messages in its stream, and measure loss and round trips. Only
the parent sends events.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import attrs

from broker.errors import BrokerError, ProtocolError
from broker.transport.arq.link_mac import IMac
from broker.transport.arq.pacer import Pacer
from broker.transport.socket.framing import FrameDecoder, encode_frames
from plugins.dcp.connection_owner import IConnectionOwner
from plugins.dcp.control import (
    MOST_MESSAGE_BYTES,
    ControlMessage,
    SequenceStart,
    decode_message,
    encode_message,
)
from plugins.dcp.event_range import (
    Description,
    SequenceKey,
    StreamRange,
    decode_range,
    decode_stream_range,
)
from plugins.dcp.feedback import decode_ends, decode_nack, encode_ends, encode_nack
from plugins.dcp.incoming_sequences import IncomingSequences, decode_opening
from plugins.dcp.liveness import CONTROL_INTERVAL, Liveness
from plugins.dcp.packet import (
    ACK,
    ACKREQ,
    FIN,
    KEEPALIVE,
    NACK,
    RETX,
    STREAM,
    SYN,
    UNSUPPORTED,
    Packet,
    decode,
)
from plugins.dcp.packet_writer import PacketWriter
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.parts import PartKey, PartStore
from plugins.dcp.receiver import Nack, SequenceReceiver
from plugins.dcp.send_buffer import CONTROL_INDEX, EVENTS, PART, SendBuffer
from plugins.dcp.settings import DcpSettings

_MOST_REASON: Final = 64
#: Seconds between unrequested acknowledgements.
_ACK_PAUSE: Final = 0.01
#: A parent lags if its copies come later than the first ones by this time.
_LAGGING: Final = 0.02
#: Most seconds between keep-alives while ranges without events wait for one. The network of
#: clusters shows the end of a flow: the child learns in time that it misses nothing.
_EMPTY_SECONDS: Final = 1.0


class Connection:
    def __init__(
        self,
        peer: Hashable,
        ids: tuple[int, int],
        mac: IMac,
        settings: DcpSettings,
        owner: IConnectionOwner[Connection],
        now: float,
        *,
        is_dialled: bool,
    ) -> None:
        """`ids` are those of this end and of the other one."""
        self.peer = peer
        self.own_id, self.remote_id = ids
        self.is_dialled = is_dialled
        """True at the child, which has dialled."""
        self.path = ParentPath()
        self.error = ""
        """Reason of the end; empty: it is open."""
        self.is_closed_here = False
        self.query_epoch = 0
        """Epoch of the child's query that is in force."""
        self.malformed = 0
        self.unsupported = 0
        """Packets with flags of later versions."""
        self.unknown_sequences = 0
        self.received = 0
        """Packets."""
        self.group_answers = 0
        """Acknowledgements of packets to a group: the child hears it."""
        self.liveness = Liveness(settings, now)
        self._mac, self.binding = mac, mac.binding
        self._settings = settings
        self._owner = owner
        self.writer = PacketWriter(self.remote_id, mac, settings.mtu)
        self._pacer = Pacer(settings.pacing, now)
        self.buffer = SendBuffer(self.writer, self._pacer, settings, lambda: self.query_epoch)
        # Without a byte the stream can not go on.
        nack = attrs.evolve(settings.receiver.nack, patience=float("inf"))
        patient = attrs.evolve(settings.receiver, nack=nack)
        self._control = SequenceReceiver[StreamRange]({self: self.path}, patient)
        self._control.begin(0, now)
        self._control.set_parent(self, 0, 0, now)
        self._frames = FrameDecoder(MOST_MESSAGE_BYTES)
        self._parts = PartStore()
        self._incoming = IncomingSequences()
        self._acked_at = now

    # ------------------------------------------------------------------ input

    def receive(self, data: bytes, now: float) -> None:
        """Handle a packet of the peer's address."""
        if self.error:
            return
        try:
            contents = self._mac.remove_tag(data)
            if contents is None:
                raise ProtocolError("a packet with a wrong tag, or a repeated one")
            packet = self._incoming.place(decode(contents))
            if packet.flags & UNSUPPORTED:
                self.unsupported += 1
                return
            self._note_received(now)
            self._dispatch(packet, now)
        except ProtocolError:
            self.malformed += 1

    def _note_received(self, now: float) -> None:
        self.received += 1
        self.path.silent_for = 0
        self.liveness.record_received(now)

    def receive_from_group(
        self, packet: Packet, description: Description, body: bytes | None, now: float
    ) -> None:
        """Handle a packet that the peer has sent to a group. Without `body`, parts are missing.

        Raises `ProtocolError`.
        """
        if self.error:
            return
        self._note_received(now)
        key, span = description.key, (packet.previous, packet.an)
        index = self._incoming.index_of(key)
        if index is not None:
            self._incoming.record_packet(index)
        if packet.flags & NACK:
            self._owner.unavailable_received(self, key, *span, now)
        elif body is None:
            self._owner.part_received(self, key, *span, now)
        else:
            range_ = decode_range(*span, description.epoch, body)
            self.liveness.record_data(now)
            self._owner.range_received(self, description, range_, now, is_repeated=False)
        if packet.flags & ACKREQ and not self.error:
            self._send_ack(now, STREAM, packet.sequence, packet.an)

    def _dispatch(self, packet: Packet, now: float) -> None:
        flags = packet.flags
        if flags & FIN:
            self.error = packet.body[:_MOST_REASON].decode("ascii", "replace") or "closed"
        elif flags & KEEPALIVE and not flags & ACK:
            self._receive_keepalive(packet, now)
        elif flags & ACK:
            self._receive_ack(packet, now)
        elif flags & NACK:
            if flags & RETX:
                self._receive_unavailable(packet, now)
                if flags & ACKREQ:
                    self._send_ack(now, 0, packet.sequence, packet.an)
            else:
                self._receive_nack(packet, now)
        else:
            self._receive_data(packet, now)
            if flags & ACKREQ and not self.error:
                self._send_ack(now, 0, packet.sequence, packet.an)

    def _receive_data(self, packet: Packet, now: float) -> None:
        flags, index = packet.flags, packet.sequence
        self._incoming.record_packet(index)
        is_repeated = bool(flags & RETX)
        if flags & STREAM:
            if index != CONTROL_INDEX:
                raise ProtocolError("a stream that is not that of control messages")
            piece = decode_stream_range(packet.previous, packet.an, packet.body)
            ready = self._control.receive(self, piece, now, is_repeated=is_repeated)
            self._take_control(ready, now)
            return
        body = packet.body
        if flags & SYN:
            body = self._read_opening(packet, now)
        description = self._incoming.find(index)
        if description is None:
            self.unknown_sequences += 1
            return
        kind, body = body[:1], body[1:]
        if kind == PART:
            key = PartKey(index, packet.previous, packet.an)
            whole = self._parts.add_part(key, body)
            if whole is None:
                span = packet.previous, packet.an
                self._owner.part_received(self, description.key, *span, now)
                return
            body = whole
        elif kind != EVENTS:
            raise ProtocolError(f"a body of the unknown kind {kind!r}")
        range_ = decode_range(packet.previous, packet.an, description.epoch, body)
        self.liveness.record_data(now)
        self._owner.range_received(self, description, range_, now, is_repeated=is_repeated)

    def _read_opening(self, packet: Packet, now: float) -> bytes:
        """Note the sequence that a packet describes, and return the rest of its body."""
        start, body = decode_opening(packet.body)
        if start.index != packet.sequence:
            raise ProtocolError(f"{start.index} is described as sequence {packet.sequence}")
        self.open_sequence(start, now)
        return body

    def open_sequence(self, start: SequenceStart, now: float) -> None:
        """Note a sequence of the parent, once. Raises `ProtocolError`."""
        if self._incoming.open(start):
            self._owner.sequence_opened(self, start, now)

    def _take_control(self, ready: Sequence[StreamRange], now: float) -> None:
        for piece in ready:
            try:
                messages = [decode_message(each) for each in self._frames.feed(piece.data)]
            except BrokerError as error:
                self.malformed += 1
                self.close(f"a bad control message: {error.code}", now)
                return
            for message in messages:
                if not self.error:
                    self._owner.control_received(self, message, now)

    def _receive_unavailable(self, packet: Packet, now: float) -> None:
        self._incoming.record_packet(packet.sequence)
        if packet.flags & SYN:
            self._read_opening(packet, now)
        description = self._incoming.find(packet.sequence)
        if description is None:
            return
        span = packet.previous, packet.an
        self._owner.unavailable_received(self, description.key, *span, now)

    def _receive_nack(self, packet: Packet, now: float) -> None:
        nack, missing = decode_nack(packet.an, packet.body)
        round_trip = self.path.round_trip.smoothed
        self.buffer.answer(packet.sequence, nack, missing, now, round_trip)

    # ------------------------------------------------------------------ acknowledgements

    def _send_ack(self, now: float, flags: int, index: int, an: int) -> None:
        """Send the present places of the sequences that have come since the last time."""
        ends: list[tuple[int, int]] = []
        for each in self._incoming.take_unreported():
            current = self._current_of_index(each)
            if current is not None:
                ends.append((each, current))
        self.writer.write(ACK | flags, an, self.received, now, encode_ends(ends), index)
        self._acked_at = now

    def _current_of_index(self, index: int) -> int | None:
        if index == CONTROL_INDEX:
            return self._control.current
        description = self._incoming.find(index)
        if description is None:
            return None
        # A sequence that is not accepted here is acknowledged, so that it is not repeated.
        self._owner.acknowledged(self, description.key)
        return self._owner.current_of(description.key) or 0

    def acknowledge_ahead(self, key: SequenceKey, now: float) -> None:
        """Let a parent that lags skip the ranges of other parents (D51, D52)."""
        if self.path.skew.mean < _LAGGING or now < self._acked_at + _ACK_PAUSE:
            return
        index = self._incoming.index_of(key)
        if index is not None:
            self._incoming.record_packet(index)
            self._send_ack(now, 0, CONTROL_INDEX, 0)

    def _receive_ack(self, packet: Packet, now: float) -> None:
        asked = self.writer.find_asked(packet.flags, packet.sequence, packet.an)
        if asked is not None:
            self.path.round_trip.add_sample(now - asked.sent_at, now)
            self.liveness.record_answer(asked.sent, packet.previous)
            trip = self.path.round_trip
            self._pacer.record_delivery(
                *(asked.sent_at, asked.sent, packet.previous),
                *(now - asked.sent_at, trip.shortest, now),
            )
            self.writer.forget_asked()
            self.group_answers += bool(packet.flags & STREAM)
        self.path.unanswered = 0
        for index, an in decode_ends(packet.body):
            self.buffer.acknowledge(index, an)

    def send_nack(self, key: SequenceKey, nack: Nack, now: float) -> None:
        """Request a sequence of the parent again, behind the present place."""
        index = self._incoming.index_of(key)
        if index is not None:
            self._send_nack(index, nack, now)

    def _send_nack(self, index: int, nack: Nack, now: float) -> None:
        self._parts.remove_until(index, nack.current)
        missing = self._parts.find_missing(index)
        self.writer.write(NACK, nack.current, 0, now, encode_nack(nack, missing), index)

    # ------------------------------------------------------------------ keep-alives

    def _send_keepalive(self, now: float) -> None:
        buffer = self.buffer
        buffer.flush_empty()
        buffer.repeat_unknown(now, self.path.round_trip.retransmit_after)
        buffer.flush(now)
        is_waiting = not buffer.control.is_acknowledged
        is_answered = self.writer.asked_since is None
        interval = self.liveness.next_interval(now, is_waiting=is_waiting, is_answered=is_answered)
        body = encode_ends(buffer.unacknowledged_ends())
        flags, sent = KEEPALIVE | ACKREQ, self.writer.sent
        self.writer.write(flags, sent, round(interval * 1000), now, body)

    def _receive_keepalive(self, packet: Packet, now: float) -> None:
        self.liveness.record_keepalive(packet.previous / 1000, packet.an, self.received - 1)
        for index, an in decode_ends(packet.body):
            self._incoming.record_packet(index)
            if index == CONTROL_INDEX:
                self._take_control(self._control.receive_end(self, an, now), now)
            elif (description := self._incoming.find(index)) is not None:
                self._owner.end_received(self, description.key, an, now)
        self._send_ack(now, KEEPALIVE, packet.sequence, packet.an)

    # ------------------------------------------------------------------ output, time and end

    def probe(self) -> None:
        """Let the peer show soon that it lives."""
        self.liveness.hasten(self._settings.least_keepalive)

    def send_control(self, *messages: ControlMessage) -> None:
        self.buffer.send_control(b"".join(encode_frames([encode_message(m) for m in messages])))

    def close(self, reason: str, now: float) -> None:
        """Tell the other end, which may not get it."""
        if not self.error:
            self.error, self.is_closed_here = reason, True
            self.writer.write(FIN, 0, 0, now, reason[:_MOST_REASON].encode("ascii", "replace"))

    def flush(self, now: float) -> list[bytes]:
        """Return the packets that may be sent now."""
        if not self.error:
            if self.buffer.take_has_grown():
                self.liveness.record_data(now)
            self.buffer.flush(now)
            if self.buffer.has_empty:
                self.liveness.hasten(_EMPTY_SECONDS)
            if not self.buffer.control.is_acknowledged:
                self.liveness.hasten(CONTROL_INTERVAL)
        return self.writer.take_packets()

    def next_timeout(self) -> float:
        times = (self.buffer.next_timeout(), self._control.next_timeout())
        known = [each for each in times if each is not None]
        return min(self.liveness.due_at, self.liveness.given_up_at, *known)

    def handle_timeout(self, now: float) -> None:
        if self.error:
            return
        if now >= self.liveness.given_up_at:
            self.close("silent", now)
            return
        if self._is_lagging(now):
            self.close("silent" if self.is_dialled else "lagging", now)
            return
        ready, nack = self._control.handle_timeout(now)
        self._take_control(ready, now)
        if nack is not None:
            self._send_nack(CONTROL_INDEX, nack, now)
        if now >= self.liveness.due_at and not self.error:
            asked = self.writer.asked_since
            if asked is not None and now > asked + self._settings.least_keepalive:
                self.path.unanswered += 1
                self.path.silent_for += 1
            self._send_keepalive(now)

    def _is_lagging(self, now: float) -> bool:
        """Return whether the peer answers no keep-alive, or is behind by more than the buffer
        (D53)."""
        settings, since = self._settings, self.buffer.lagging_since
        if since is not None and now >= since + settings.lag_seconds:
            return True
        most = settings.unanswered
        if self.path.unanswered > most:
            most = max(most, self.liveness.most_lost(settings.least_keepalive, both_ways=True))
        return self.path.unanswered > most
