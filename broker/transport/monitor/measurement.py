"""Measurements of one connection: round trip, age of unacknowledged data, and the peer's clock."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from broker.transport.layer import ClockOffset
from broker.transport.monitor.settings import MonitorSettings
from broker.transport.monitor.wire import Heartbeat

#: The sample with the shortest round trip among so many gives the clock's offset.
SAMPLES: Final = 8
#: Heartbeats without an echo; older ones are forgotten.
_MOST_BEATS: Final = 64
_MICROSECONDS: Final = 1e6


class _Beat(NamedTuple):
    number: int
    sent_at: float
    clock: int


class Measurements:
    """Measurements by the heartbeats of one connection.

    The delay of a heartbeat covers all messages before it, since a connection is FIFO.
    """

    def __init__(self, settings: MonitorSettings, now: float) -> None:
        self.round_trip: float | None = None
        """Of the last heartbeat with a new echo."""
        self._settings = settings
        self._beats: deque[_Beat] = deque(maxlen=_MOST_BEATS)
        self._samples: deque[tuple[float, float]] = deque(maxlen=SAMPLES)
        """Round trips and offsets, in seconds."""
        self._reads = 0
        self._progress_at = now
        self._unheard_for = 0.0

    def record_sent(self, number: int, clock: int, now: float) -> None:
        self._beats.append(_Beat(number, now, clock))

    def record_heartbeat(self, beat: Heartbeat, clock: int, now: float) -> None:
        """Take a heartbeat of the peer that has arrived now, when the own clock was `clock`."""
        echoed = next((each for each in self._beats if each.number == beat.echo), None)
        while self._beats and self._beats[0].number <= beat.echo:
            self._beats.popleft()
        if beat.reads > self._reads or not self._beats:
            self._reads = max(self._reads, beat.reads)
            self._progress_at = now
            self._unheard_for = 0.0
        else:
            self._unheard_for = now - max(self._progress_at, self._beats[0].sent_at)
        if echoed is not None:
            waited = beat.waited / _MICROSECONDS
            self.round_trip = max(0.0, now - echoed.sent_at - waited)
            there = beat.arrived - echoed.clock
            back = beat.clock - clock
            self._samples.append((self.round_trip, (there + back) / 2 / _MICROSECONDS))

    @property
    def clock_offset(self) -> ClockOffset | None:
        """None before the first measurement."""
        if not self._samples:
            return None
        round_trip, offset = min(self._samples)
        return ClockOffset(offset, round_trip / 2)

    @property
    def oldest_at(self) -> float | None:
        """The time at which the oldest heartbeat without an echo was sent."""
        return self._beats[0].sent_at if self._beats else None

    def age(self, now: float) -> float:
        return 0.0 if self.oldest_at is None else now - self.oldest_at

    @property
    def is_unheard(self) -> bool:
        """True if the peer hears nothing, by its heartbeats, although this end sends.

        A heartbeat less counts: the peer takes as long to send the next one.
        """
        settings = self._settings
        return self._unheard_for >= settings.liveness - settings.heartbeat

    def find_poor(self, now: float, is_suspected: bool) -> str:
        """Return the reason to suspect the peer for its quality; empty: its quality is good.

        A peer that is suspected must keep a half of the bounds.
        """
        settings, part = self._settings, 0.5 if is_suspected else 1.0
        if 0 < settings.most_round_trip * part < (self.round_trip or 0.0):
            return "round trip"
        if 0 < settings.most_age * part < self.age(now):
            return "age"
        clock = self.clock_offset
        if clock is not None:
            beyond = abs(clock.offset) - clock.uncertainty
            if 0 < settings.most_clock_offset * part < beyond:
                return "clock"
        return ""
