"""How fast datagrams go: a token bucket whose rate follows what gets through (T30)."""

from __future__ import annotations

from broker.transport.arq.settings import ArqSettings

#: The bucket holds what goes in so long (seconds): timers are not much finer than this.
_CAPACITY_SECONDS = 0.01
#: And at least so many datagrams.
_MIN_CAPACITY = 16
#: A round lasts a round trip, and at least so long (seconds), and so many datagrams.
_MIN_ROUND = 0.02
_ROUND_DATAGRAMS = 64
#: What the rate is multiplied by when the path is full.
_DECREASE = 0.75
#: What a round adds once the path has been full, as part of the starting rate.
_INCREASE = 0.1
#: The path is full when a round trip takes so many times the shortest one, and so many seconds
#: more: a peer may be busy with something else for a moment.
_QUEUE_FACTOR = 3.0
_QUEUE_DELAY = 0.05
#: On a full path two decreases let 1.8 times as much of the rest through; where it is less than so
#: many times as much, the loss has another cause.
_IMPROVEMENT = 1.33
#: More loss than is usual by so much is due to the rate again.
_UNUSUAL = 0.1


class Pacer:
    """Additive increase, multiplicative decrease; doubling until the first decrease.

    Loss means that the path is full only while less speed makes it less: what stays is taken for
    the path's nature, as on a radio link.
    """

    def __init__(self, settings: ArqSettings, now: float) -> None:
        self.rate = settings.start_rate
        self._settings = settings
        self._tokens = self._capacity()
        self._filled_at = now
        self._doubling = True
        self._rate_since = now
        self._round_start: tuple[float, int, int] | None = None
        """When the round began; how many datagrams had been sent, and had come."""
        self._was_limited = False  # in this round more could have been sent
        self._usual_loss = settings.tolerated_loss  # the part that gets lost whatever the rate is
        self._first_decrease: tuple[float, float] | None = None
        """The loss that made the rate fall at first, and the rate then."""

    def may_send(self, now: float) -> bool:
        """Whether there is a token. The bucket may go below nothing by one datagram."""
        if now > self._filled_at:
            self._tokens = min(self._capacity(), self._tokens + (now - self._filled_at) * self.rate)
            self._filled_at = now
        if self._tokens > 0:
            return True
        self._was_limited = True
        return False

    def record_sent(self, size: int) -> None:
        """A datagram of `size` bytes has gone."""
        self._tokens -= size

    def next_send_at(self) -> float:
        """When to come again after `may_send` has said no: for more than one datagram."""
        return self._filled_at + (self._capacity() / 2 - self._tokens) / self.rate

    def record_delivery(
        self, at: float, sent: int, came: int, round_trip: float, shortest: float, now: float
    ) -> None:
        """A datagram that was sent at a time has come: the `sent`th that was sent, and the `came`th
        that came. Its round trip, until now, and the shortest one known took so long (seconds)."""
        if at < self._rate_since:
            return
        if self._round_start is None:
            self._round_start = (now, sent, came)
            return
        began, sent_before, come_before = self._round_start
        count = sent - sent_before
        if now < began + max(_MIN_ROUND, round_trip) or count < _ROUND_DATAGRAMS:
            return
        limits = self._settings
        full = self._is_overloaded(max(0.0, 1 - (came - come_before) / count))
        rate = self.rate
        if full or round_trip > _QUEUE_FACTOR * shortest + _QUEUE_DELAY:
            self.rate = max(limits.least_rate, rate * _DECREASE)
            self._doubling = False
        elif self._was_limited:
            more = rate if self._doubling else _INCREASE * min(rate, limits.start_rate)
            self.rate = min(limits.most_rate, rate + more)
        self._round_start = (now, sent, came)
        if self.rate != rate:
            # What was sent before says nothing about it.
            self._rate_since, self._round_start = now, None
        self._was_limited = False

    def _is_overloaded(self, loss: float) -> bool:
        """Whether loss says that the path is full."""
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
