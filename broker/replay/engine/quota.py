"""What a job may bring, and who goes first when it is more: the requests that bring the most."""

from __future__ import annotations

import numpy as np

from broker.errors import BrokerError, Overloaded, ReplayTooLarge, WireError
from broker.replay.engine.contract import JobLimits
from broker.replay.ordering import Integers


class JobQuota:
    """How many events and bytes each request has come to so far, and which of them had to go."""

    def __init__(self, size: int, limits: JobLimits) -> None:
        self._limits = limits
        self._events = np.zeros(size, dtype=np.int64)
        self._bytes = np.zeros(size, dtype=np.int64)
        self._stored = 0
        self.refused: dict[int, WireError] = {}

    def add_events(self, requests: Integers, sizes: Integers) -> list[int]:
        """These requests have an event each more, of such sizes. Those that have to go now."""
        size = len(self._events)
        self._events += np.bincount(requests, minlength=size)
        self._bytes += np.bincount(requests, weights=sizes, minlength=size).astype(np.int64)
        most = self._limits.request_bytes
        newly_refused = np.flatnonzero(self._bytes > most).tolist()
        for number in newly_refused:
            reason = f"the events of this request are more than {most} bytes"
            self._refuse(number, ReplayTooLarge(f"{reason}: ask for less at a time"))
        while self._events.sum() > self._limits.deliveries:
            heaviest = int(self._events.argmax())
            newly_refused.append(heaviest)
            reason = (
                f"the requests of this job come to more than {self._limits.deliveries} events, "
                f"and this one to {self._events[heaviest]} of them, the most"
            )
            self._refuse(heaviest, _overloaded(reason))
        return newly_refused

    def add_stored_bytes(self, size: int) -> list[int]:
        """So many bytes more are in the job's folder. Those that have to go now."""
        self._stored += size
        most = self._limits.disk_bytes
        reason = f"the events of this job are more than {most} bytes"
        if self._stored > most:
            newly_refused = [n for n in range(len(self._events)) if n not in self.refused]
        elif self._stored > most // 2:
            newly_refused = [int(self._bytes.argmax())] if self._bytes.any() else []
            reason = f"{reason} soon, and this request has the most of them"
        else:
            newly_refused = []
        for number in newly_refused:
            self._refuse(number, _overloaded(reason))
        return newly_refused

    def _refuse(self, number: int, error: BrokerError) -> None:
        self.refused[number] = error.to_wire()
        self._events[number] = self._bytes[number] = 0


def _overloaded(reason: str) -> Overloaded:
    return Overloaded(f"{reason}: ask later, or for less at a time")
