"""Pacing of datagrams: a token bucket whose rate follows the measured throughput (T30)."""

from __future__ import annotations

from broker.transport.arq.settings import ArqSettings

#: Timers are not much finer.
_CAPACITY_SECONDS = 0.01
_MIN_CAPACITY = 16
#: A round also lasts at least a round trip.
_MIN_ROUND = 0.02
_ROUND_DATAGRAMS = 64
_DECREASE = 0.75
#: Share of the starting rate, after the path has been full.
_INCREASE = 0.1
#: Factor over the shortest round trip, and seconds beyond that. The peer may be busy for a moment.
_QUEUE_FACTOR = 3.0
_QUEUE_DELAY = 0.05
#: On a full path two decreases raise the share of arriving datagrams 1.8 times.
_IMPROVEMENT = 1.33
#: Loss this far above the usual loss is due to the rate.
_UNUSUAL = 0.1


class Pacer:
    """A token bucket whose rate follows the measured throughput (T30).

    Additive increase, multiplicative decrease; doubling until the first decrease. Loss counts as
    congestion only while a lower rate reduces it. Other loss is a property of the path, as on a
    radio link.
    """

    def __init__(self, settings: ArqSettings, now: float) -> None:
        self.rate = settings.start_rate
        self._settings = settings
        self._tokens = self._capacity()
        self._filled_at = now
        self._doubling = True
        self._rate_since = now
        self._round_start: tuple[float, int, int] | None = None
        """Time, and the counts of datagrams sent and received."""
        self._was_limited = False  # more datagrams were ready
        self._usual_loss = settings.tolerated_loss  # independent of the rate
        self._first_decrease: tuple[float, float] | None = None
        """Loss and rate."""

    def may_send(self, now: float) -> bool:
        """Return True if there is a token. The bucket may go below zero by one datagram."""
        if now > self._filled_at:
            self._tokens = min(self._capacity(), self._tokens + (now - self._filled_at) * self.rate)
            self._filled_at = now
        if self._tokens > 0:
            return True
        self._was_limited = True
        return False

    def record_sent(self, size: int) -> None:
        self._tokens -= size

    def next_send_at(self) -> float:
        """With tokens for several datagrams."""
        return self._filled_at + (self._capacity() / 2 - self._tokens) / self.rate

    def record_delivery(
        self,
        sent_at: float,
        sent: int,
        received: int,
        round_trip: float,
        shortest: float,
        now: float,
    ) -> None:
        """Record that the datagram sent at `sent_at` as number `sent` arrived as number `received`.

        `shortest` is the recent minimum of `round_trip`.
        """
        if sent_at < self._rate_since:
            return
        if self._round_start is None:
            self._round_start = (now, sent, received)
            return
        round_began, sent_before, received_before = self._round_start
        count = sent - sent_before
        if now < round_began + max(_MIN_ROUND, round_trip) or count < _ROUND_DATAGRAMS:
            return
        settings = self._settings
        full = self._is_overloaded(max(0.0, 1 - (received - received_before) / count))
        rate = self.rate
        if full or round_trip > _QUEUE_FACTOR * shortest + _QUEUE_DELAY:
            self.rate = max(settings.least_rate, rate * _DECREASE)
            self._doubling = False
        elif self._was_limited:
            more = rate if self._doubling else _INCREASE * min(rate, settings.start_rate)
            self.rate = min(settings.most_rate, rate + more)
        self._round_start = (now, sent, received)
        if self.rate != rate:
            # Earlier datagrams do not measure the new rate.
            self._rate_since, self._round_start = now, None
        self._was_limited = False

    def _is_overloaded(self, loss: float) -> bool:
        tolerated, before = self._settings.tolerated_loss, self._first_decrease
        if before is not None and self.rate <= _DECREASE**2 * before[1]:
            self._first_decrease = None
            if 1 - loss < _IMPROVEMENT * (1 - before[0]):
                self._usual_loss = max(loss, tolerated)
        if loss < self._usual_loss:
            self._usual_loss = max(tolerated, (self._usual_loss + loss) / 2)
        full = loss > (self._usual_loss + _UNUSUAL if self._usual_loss > tolerated else tolerated)
        if not full:
            self._first_decrease = None
        elif self._first_decrease is None:
            self._first_decrease = (loss, self.rate)
        return full

    def _capacity(self) -> float:
        return max(_MIN_CAPACITY * self._settings.datagram_bytes, self.rate * _CAPACITY_SECONDS)
