"""Measurements of the path from one parent (DCP D95, D98; N8, N15)."""

from __future__ import annotations

from typing import Final

from broker.transport.arq.round_trip import RoundTrip

#: Weights of a new sample in the mean and in the deviation, as for round trips (RFC 6298).
_MEAN_WEIGHT: Final = 1 / 8
_DEVIATION_WEIGHT: Final = 1 / 4
_SUSPECT_AFTER: Final = 2


class SmoothedTime:
    """A smoothed time and its deviation, in seconds."""

    def __init__(self) -> None:
        self.mean = 0.0
        self.deviation = 0.0
        self._has_sample = False

    def add_sample(self, sample: float) -> None:
        if not self._has_sample:
            self._has_sample = True
            self.mean, self.deviation = sample, sample / 2
            return
        difference = abs(self.mean - sample)
        self.deviation += _DEVIATION_WEIGHT * (difference - self.deviation)
        self.mean += _MEAN_WEIGHT * (sample - self.mean)

    @property
    def late_after(self) -> float:
        """Time that a sample seldom exceeds."""
        return self.mean + 4 * self.deviation


class ParentPath:
    """Counts and times of one parent, over all sequences."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.round_trip = RoundTrip()
        self.skew = SmoothedTime()
        """By how much its copies come later than the first ones."""
        self.reordering = SmoothedTime()
        """By how much packets come later than a packet that was sent after them."""
        self.first = 0
        """Events that came from this parent first."""
        self.duplicate = 0
        self.repaired = 0
        """Events that came first as a retransmission of this parent."""
        self.lost = 0
        """Ranges of its chain that did not come, at first."""
        self.skipped = 0
        """Ranges that it need not have sent: it knew that they had come."""
        self.saved_losses = 0
        """Events that only this parent brought unasked."""
        self.saved_seconds = 0.0
        """By how much the next copies came later than its own, in sum."""
        self.bytes = 0
        self.unanswered = 0
        """Keep-alives without an answer since the last one."""
        self.left_out = 0
        """Wanted events that another parent brought, and that were in no range of this one."""
        self.withheld = 0
        """Ranges for whose statement by this parent the patience was too short."""
        self.silent_for = 0
        """Keep-alives without an answer since the last packet."""

    @property
    def is_suspect(self) -> bool:
        """True if the parent may be dead: a missing range does not wait for it.

        Packets of any kind show that it lives: with 20% loss, two keep-alives in a row are
        unanswered once in eight times.
        """
        return self.silent_for >= _SUSPECT_AFTER

    def snapshot(self) -> dict[str, object]:
        return {
            "name": self.name,
            "first": self.first,
            "duplicate": self.duplicate,
            "repaired": self.repaired,
            "lost": self.lost,
            "skipped": self.skipped,
            "left_out": self.left_out,
            "withheld": self.withheld,
            "saved_losses": self.saved_losses,
            "saved_ms": round(self.saved_seconds * 1e3, 3),
            "bytes": self.bytes,
            "skew_ms": round(self.skew.mean * 1e3, 3),
            "round_trip_ms": round(self.round_trip.smoothed * 1e3, 3),
        }
