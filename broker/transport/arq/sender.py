"""The sending end of a connection: what is under way, what was lost, when to ask (D43-D50)."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.fragmentation import Cutter
from broker.transport.arq.pacer import Pace
from broker.transport.arq.round_trip import RoundTrip
from broker.transport.arq.mac import Seal
from broker.transport.arq.settings import CorrectionSettings
from broker.transport.arq.wire import (
    DATA_OVERHEAD,
    NO_START,
    POLL,
    Feedback,
    data,
    numbered,
)

#: The time between two polls is doubled at most so many times.
_MOST_DOUBLINGS = 4


@attrs.define
class _Sent:
    """A datagram that was not acknowledged yet."""

    datagram: bytes
    at: float
    sent: int  # datagrams, this one and all before it
    again: bool = False  # sent more than once: says nothing about the round trip (Karn)


class Sender:
    """Everything that was submitted, until it is acknowledged.

    The receiver's limit bounds what is under way, so nothing that may be asked for again is ever
    dropped. What waits to be sent is bounded by who submits.
    """

    def __init__(
        self, settings: CorrectionSettings, seal: Seal, peer: int, limit: int, now: float
    ) -> None:
        #: Bytes of datagrams under way.
        self.flying_bytes = 0
        #: Datagrams that the receiver has told to be missing.
        self.lost = 0
        #: Datagrams sent again.
        self.repeated = 0
        self.pace = Pace(settings, now)
        self.round_trip = RoundTrip()
        self._seal = seal
        self._peer = peer
        self._ack_delay = settings.ack_delay
        self._limit = limit
        self._cutter = Cutter(settings.datagram_bytes - DATA_OVERHEAD)
        self._highest = 0
        self._acked = 0
        self._sent = 0  # datagrams, each as often as it was
        self._measured = 0  # the highest number whose round trip was measured
        self._flying: dict[int, _Sent] = {}
        self._wanted: dict[int, None] = {}  # to be sent again
        self._ending = False
        self._ended_at = 0  # the number that says that nothing follows
        self._token_at: float | None = None
        self._polled_at = now
        self._doublings = 0

    @property
    def buffered_bytes(self) -> int:
        """Submitted and not acknowledged."""
        return self._cutter.bytes + self.flying_bytes

    @property
    def done(self) -> bool:
        """Whether the end was acknowledged."""
        return 0 < self._ended_at <= self._acked

    def add(self, packets: Sequence[bytes]) -> None:
        """Take packets. Raises ValueError for an empty one."""
        self._cutter.add(packets)

    def end(self) -> None:
        """Nothing follows what has been submitted."""
        self._ending = True

    def send(self, now: float) -> list[bytes]:
        """What may go now: first what was lost, then what is new."""
        datagrams: list[bytes] = []
        pace = self.pace
        self._token_at = None
        while self._wanted or self._has_new():
            if not pace.may_send(now):
                self._token_at = pace.next_token()
                break
            if self._wanted:
                number = next(iter(self._wanted))
                del self._wanted[number]
                sent = self._flying[number]
                sent.at = now
                sent.again = True
                self.repeated += 1
                datagram = sent.datagram
            else:
                datagram = self._cut(now)
            pace.sent(len(datagram))
            self._sent += 1
            datagrams.append(datagram)
        if datagrams:
            self._polled_at = now
        return datagrams

    def heard(self, said: Feedback, now: float) -> None:
        """What the receiver has and wants. Raises `ProtocolError` for what can not be."""
        if said.newest > self._highest or said.received > self._highest:
            raise ProtocolError(f"{said.newest} was received, and {self._highest} sent")
        if said.received < self._acked:
            return  # overtaken by a later one
        self._measure(said, now)
        # Without progress the receiver has no room, or what it asks for goes again at once.
        progress = said.received > self._acked or said.limit > self._limit or said.missing
        for number in range(self._acked + 1, said.received + 1):
            self.flying_bytes -= len(self._flying.pop(number).datagram)
            self._wanted.pop(number, None)
        self._acked = said.received
        self._limit = max(self._limit, said.limit)
        self._note_missing(said, now)
        if progress:
            self._doublings = 0
            self._polled_at = now

    def poll(self, now: float) -> bytes:
        """A question that FEEDBACK answers."""
        due = self.poll_at(False)
        if due is not None and now >= due:
            self._doublings = min(self._doublings + 1, _MOST_DOUBLINGS)
        self._polled_at = now
        return self._seal.sealed(numbered(POLL, self._peer, self._highest))

    def poll_at(self, anyway: bool) -> float | None:
        """When to ask, because something is under way or there was no room for it; or `anyway`."""
        if anyway or (self._token_at is None and (self._flying or self._cutter)):
            wait = self.round_trip.timeout(self._ack_delay)
            return self._polled_at + wait * (1 << self._doublings)
        return None

    def send_at(self) -> float | None:
        """When there will be tokens to go on with."""
        return self._token_at

    def _has_new(self) -> bool:
        if self._highest >= self._limit:
            return False
        return bool(self._cutter) or (self._ending and not self._ended_at)

    def _cut(self, now: float) -> bytes:
        start, packet, parts = self._cutter.next() if self._cutter else (NO_START, 0, [])
        self._highest += 1
        if not parts:
            self._ended_at = self._highest
        datagram = self._seal.sealed(data(self._peer, self._highest, start, packet, parts))
        self._flying[self._highest] = _Sent(datagram, now, self._sent + 1)
        self.flying_bytes += len(datagram)
        return datagram

    def _measure(self, said: Feedback, now: float) -> None:
        if said.newest <= self._measured:
            return
        self._measured = said.newest
        sent = self._flying.get(said.newest)
        if sent is None or sent.again:
            return
        sample = now - sent.at - said.held
        self.round_trip.measured(sample, now)
        shortest = self.round_trip.shortest
        self.pace.measured(sent.at, sent.sent, said.arrived, sample, shortest, now)

    def _note_missing(self, said: Feedback, now: float) -> None:
        # Whoever asks for what was just sent again has not had the time to get it.
        before = now - self.round_trip.repeat_after
        for first, count in said.missing:
            if first + count - 1 > self._highest:
                raise ProtocolError(f"{first + count - 1} is missing, and {self._highest} was sent")
            for number in range(first, first + count):
                sent = self._flying.get(number)
                if sent is not None and sent.at <= before and number not in self._wanted:
                    self._wanted[number] = None
                    self.lost += 1
