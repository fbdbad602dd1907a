"""The sending end of a connection: datagrams in flight, losses, and polls (D43-D50)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.fragmentation import Fragmenter
from broker.transport.arq.link_mac import IMac
from broker.transport.arq.pacer import Pacer
from broker.transport.arq.round_trip import RoundTrip
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.wire import (
    DATA_OVERHEAD,
    NO_START,
    POLL,
    Feedback,
    encode_data,
    encode_numbered,
)

_MAX_DOUBLINGS = 4


@attrs.define
class _Sent:
    contents: bytes  # without a tag: a repeated datagram has a new one
    at: float
    count: int  # until then, with this one
    is_retransmitted: bool = False  # no round-trip sample then (Karn)


class Sender:
    """All submitted packets of a connection until their acknowledgement (D43-D50).

    The receiver's limit bounds the datagrams in flight, so all may be requested. The caller bounds
    the queue of unsent packets.
    """

    def __init__(self, settings: ArqSettings, mac: IMac, peer: int, limit: int, now: float) -> None:
        self.in_flight_bytes = 0
        #: Reported by the receiver.
        self.lost = 0
        self.retransmitted = 0
        self.pacer = Pacer(settings, now)
        self.round_trip = RoundTrip()
        self._mac = mac
        self._peer = peer
        self._ack_delay = settings.ack_delay
        self._limit = limit
        self._fragmenter = Fragmenter(settings.datagram_bytes - DATA_OVERHEAD - mac.overhead)
        self._highest = 0
        self._acked = 0
        self._sent_count = 0  # with repetitions
        self._measured = 0  # highest number with a round-trip sample
        self._in_flight: dict[int, _Sent] = {}
        self._to_retransmit: dict[int, None] = {}
        self._is_ending = False
        self._end_number = 0
        self._token_at: float | None = None
        self._polled_at = now
        self._doublings = 0

    @property
    def buffered_bytes(self) -> int:
        return self._fragmenter.queued_bytes + self.in_flight_bytes

    @property
    def is_end_acknowledged(self) -> bool:
        return 0 < self._end_number <= self._acked

    def submit(self, packets: Sequence[bytes]) -> None:
        """Raises ValueError for an empty packet."""
        self._fragmenter.add_packets(packets)

    def end_stream(self) -> None:
        self._is_ending = True

    def take_datagrams(self, now: float) -> list[bytes]:
        """Retransmissions come first."""
        datagrams: list[bytes] = []
        pace = self.pacer
        self._token_at = None
        while self._to_retransmit or self._has_new():
            if not pace.may_send(now):
                self._token_at = pace.next_send_at()
                break
            if self._to_retransmit:
                number = next(iter(self._to_retransmit))
                del self._to_retransmit[number]
                sent = self._in_flight[number]
                sent.at = now
                sent.is_retransmitted = True
                self.retransmitted += 1
                contents = sent.contents
            else:
                contents = self._next_contents(now)
            datagram = self._mac.add_tag(contents)
            pace.record_sent(len(datagram))
            self._sent_count += 1
            datagrams.append(datagram)
        if datagrams:
            self._polled_at = now
        return datagrams

    def receive_feedback(self, report: Feedback, now: float) -> None:
        """Raises `ProtocolError` if a FEEDBACK contradicts the datagrams sent."""
        if report.highest > self._highest or report.received > self._highest:
            raise ProtocolError(f"{report.highest} was received, and {self._highest} sent")
        if report.received < self._acked:
            return
        self._measure(report, now)
        # Otherwise the receiver has no room.
        progress = report.received > self._acked or report.limit > self._limit or report.missing
        for number in range(self._acked + 1, report.received + 1):
            self.in_flight_bytes -= len(self._in_flight.pop(number).contents)
            self._to_retransmit.pop(number, None)
        self._acked = report.received
        self._limit = max(self._limit, report.limit)
        self._record_missing(report, now)
        if progress:
            self._doublings = 0
            self._polled_at = now

    def create_poll(self, now: float) -> bytes:
        """The peer answers with FEEDBACK."""
        due = self.next_poll_at(False)
        if due is not None and now >= due:
            self._doublings = min(self._doublings + 1, _MAX_DOUBLINGS)
        self._polled_at = now
        return self._mac.add_tag(encode_numbered(POLL, self._peer, self._highest))

    def next_poll_at(self, anyway: bool) -> float | None:
        """Return None if nothing is in flight, except `anyway`."""
        if anyway or (self._token_at is None and (self._in_flight or self._fragmenter)):
            wait = self.round_trip.timeout(self._ack_delay)
            return self._polled_at + wait * (1 << self._doublings)
        return None

    def next_send_at(self) -> float | None:
        return self._token_at

    def _has_new(self) -> bool:
        if self._highest >= self._limit:
            return False
        return bool(self._fragmenter) or (self._is_ending and not self._end_number)

    def _next_contents(self, now: float) -> bytes:
        start, packet, parts = (
            self._fragmenter.next_fragment() if self._fragmenter else (NO_START, 0, [])
        )
        self._highest += 1
        if not parts:
            self._end_number = self._highest
        contents = encode_data(self._peer, self._highest, start, packet, parts)
        self._in_flight[self._highest] = _Sent(contents, now, self._sent_count + 1)
        self.in_flight_bytes += len(contents)
        return contents

    def _measure(self, report: Feedback, now: float) -> None:
        if report.highest <= self._measured:
            return
        self._measured = report.highest
        sent = self._in_flight.get(report.highest)
        if sent is None or sent.is_retransmitted:
            return
        sample = now - sent.at - report.delay
        self.round_trip.add_sample(sample, now)
        shortest = self.round_trip.shortest
        self.pacer.record_delivery(
            sent.at, sent.count, report.datagrams_received, sample, shortest, now
        )

    def _record_missing(self, report: Feedback, now: float) -> None:
        # A request right after a retransmission was sent before that arrived.
        before = now - self.round_trip.retransmit_after
        for first, count in report.missing:
            if first + count - 1 > self._highest:
                raise ProtocolError(f"{first + count - 1} is missing, and {self._highest} was sent")
            for number in range(first, first + count):
                sent = self._in_flight.get(number)
                if sent is not None and sent.at <= before and number not in self._to_retransmit:
                    self._to_retransmit[number] = None
                    self.lost += 1
