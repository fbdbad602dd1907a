"""Beyond the limits of a running job, the largest requests are refused first."""

from __future__ import annotations

import numpy as np

from broker.errors import BrokerError, Overloaded, ReplayTooLarge, WireError
from broker.replay.engine.contract import JobLimits
from broker.replay.ordering import Integers


class JobQuota:
    def __init__(self, size: int, limits: JobLimits) -> None:
        self._limits = limits
        self._events = np.zeros(size, dtype=np.int64)
        self._bytes = np.zeros(size, dtype=np.int64)
        self._stored = 0
        self.refused: dict[int, WireError] = {}

    def add_events(self, requests: Integers, sizes: Integers) -> list[int]:
        """Add an event to each request. Return newly refused requests."""
        size = len(self._events)
        self._events += np.bincount(requests, minlength=size)
        self._bytes += np.bincount(requests, weights=sizes, minlength=size).astype(np.int64)
        most = self._limits.request_bytes
        newly_refused = np.flatnonzero(self._bytes > most).tolist()
        for number in newly_refused:
            reason = f"the events of this request are more than {most} bytes"
            self._refuse(number, ReplayTooLarge(f"{reason}: request less at a time"))
        while self._events.sum() > self._limits.deliveries:
            heaviest = int(self._events.argmax())
            newly_refused.append(heaviest)
            reason = (
                f"the requests of this job have more than {self._limits.deliveries} events, "
                f"and this one has the most: {self._events[heaviest]}"
            )
            self._refuse(heaviest, _overloaded(reason))
        return newly_refused

    def add_stored_bytes(self, size: int) -> list[int]:
        """Return newly refused requests."""
        self._stored += size
        most = self._limits.disk_bytes
        reason = f"the events of this job are more than {most} bytes"
        if self._stored > most:
            newly_refused = [n for n in range(len(self._events)) if n not in self.refused]
        elif self._stored > most // 2:
            newly_refused = [int(self._bytes.argmax())] if self._bytes.any() else []
            reason = f"{reason} soon, and this request has the most"
        else:
            newly_refused = []
        for number in newly_refused:
            self._refuse(number, _overloaded(reason))
        return newly_refused

    def _refuse(self, number: int, error: BrokerError) -> None:
        self.refused[number] = error.to_wire()
        self._events[number] = self._bytes[number] = 0


def _overloaded(reason: str) -> Overloaded:
    return Overloaded(f"{reason}: try later, or request less at a time")
