"""Keep-alives of one connection, and the end of a silent one (DCP D54, D98)."""

from __future__ import annotations

from math import ceil, log
from typing import Final

from plugins.dcp.parent_path import SmoothedTime
from plugins.dcp.settings import DcpSettings

_SILENT_INTERVALS: Final = 3
#: Seconds: a busy process may stall. A missing range does not wait for a suspect parent.
_LEAST_SILENCE: Final = 2.0
#: A living peer is given up at most once in this time, in seconds.
_FALSE_END_SECONDS: Final = 86_400.0
#: The measurement begins as if of so many packets so many had been lost.
_FIRST_SENT: Final = 10.0
_FIRST_LOST: Final = 1.0
_LEAST_LOSS: Final = 0.01
_MOST_LOSS: Final = 0.9
#: However great the loss is.
_MOST_LOST: Final = 60
#: Packets that the measured loss is of.
_MEMORY: Final = 500.0
#: While control messages are not acknowledged.
CONTROL_INTERVAL: Final = 0.1


class _LossCount:
    """Packets in one direction, of which the older ones count less."""

    def __init__(self) -> None:
        self._counted: tuple[int, int] = (0, 0)
        """Packets up to the last sample: sent, and received."""
        self._sent = self._lost = 0.0

    def add(self, sent: int, received: int) -> bool:
        """Return False for a sample that is no newer than the last one."""
        count = sent - self._counted[0]
        if count <= 0:
            return False
        lost = min(max(count - (received - self._counted[1]), 0), count)
        kept = max(0.0, 1 - count / _MEMORY)
        self._sent = kept * self._sent + count
        self._lost = kept * self._lost + lost
        self._counted = sent, received
        return True

    @property
    def share(self) -> float:
        share = (self._lost + _FIRST_LOST) / (self._sent + _FIRST_SENT)
        return min(max(share, _LEAST_LOSS), _MOST_LOSS)


class Liveness:
    """The interval of keep-alives follows the pace of the stream, and the patience the loss."""

    def __init__(self, settings: DcpSettings, now: float) -> None:
        self.due_at = self.sent_at = now
        """Time of the next keep-alive, and of the last one."""
        self._settings = settings
        self._gap = SmoothedTime()
        self.received_at = now
        """Time of the last packet of the peer."""
        self._data_at = now
        self._interval = settings.least_keepalive
        self._peer_interval = 1.0
        self._incoming, self._outgoing = _LossCount(), _LossCount()
        self._patience = self._find_patience()

    @property
    def loss(self) -> float:
        """Measured share of packets that are lost on the way here."""
        return self._incoming.share

    def record_received(self, now: float) -> None:
        self.received_at = now

    def record_data(self, now: float) -> None:
        """Record events that were sent or received."""
        self._gap.add_sample(now - self._data_at)
        self._data_at = now

    def next_interval(self, now: float, *, is_waiting: bool, is_answered: bool) -> float:
        """Return the most seconds up to the keep-alive after the one that is due now.

        It comes earlier with `is_waiting`: control messages are not acknowledged. It grows only if
        the last one `is_answered`: the peer counts silence in intervals that it knows.
        """
        settings = self._settings
        if now > self._data_at + settings.least_keepalive:
            # The stream pauses: it may have become slower.
            self._gap.add_sample(now - self._data_at)
        interval = max(settings.least_keepalive, 4 * self._gap.mean)
        most = min(settings.most_keepalive, self._interval * (2 if is_answered else 1))
        self._interval = min(interval, most)
        self.sent_at = now
        self.due_at = now + (CONTROL_INTERVAL if is_waiting else self._interval)
        return self._interval

    def record_keepalive(self, interval: float, sent: int, received: int) -> None:
        """Record a keep-alive: the peer's interval, and the packets sent there and received here
        before it."""
        if self._incoming.add(sent, received):
            # Else it is late, or repeated.
            self._peer_interval = min(max(interval, 0.01), 60.0)
            self._patience = self._find_patience()

    def record_answer(self, sent: int, received: int) -> None:
        """Record an acknowledgement: packets sent here before its request, and received there."""
        self._outgoing.add(sent, received)

    def hasten(self, seconds: float) -> None:
        """Let the next keep-alive come at the latest so long after the last one."""
        self.due_at = min(self.due_at, self.sent_at + seconds)

    def most_lost(self, interval: float, *, both_ways: bool = False) -> int:
        """Return the number of packets, or of packets and their answers, that are lost in a row
        less than once a day, if one is sent in each interval."""
        loss = self.loss
        if both_ways:
            loss = min(_MOST_LOSS, 1 - (1 - loss) * (1 - self._outgoing.share))
        return min(_MOST_LOST, ceil(log(_FALSE_END_SECONDS / interval) / -log(loss)))

    @property
    def given_up_at(self) -> float:
        """Return the time at which the peer has been silent for too long."""
        return self.received_at + self._patience

    def _find_patience(self) -> float:
        count = max(_SILENT_INTERVALS, self.most_lost(self._peer_interval))
        return max(self._peer_interval * count, _LEAST_SILENCE)
