"""Requests that wait for their answers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from twisted.internet.defer import Deferred

from broker.transport.clock import IClock, IDelayed

Key = TypeVar("Key", bound=Hashable)
Answer = TypeVar("Answer")


class OpenRequests(Generic[Key, Answer]):
    """Requests that wait for an answer. Each ends with it, or with None.

    A key has all that an answer must repeat, such as the peer and a number. The owner adds nothing
    while `is_full`.
    """

    def __init__(self, clock: IClock, most: int) -> None:
        self._clock = clock
        self._most = most
        self._open: dict[Key, tuple[Deferred[Answer | None], IDelayed | None]] = {}

    def __contains__(self, key: object) -> bool:
        return key in self._open

    @property
    def is_full(self) -> bool:
        return len(self._open) >= self._most

    @property
    def is_half_full(self) -> bool:
        """True if the rest is for requests of this node's own: those for others wait or fail."""
        return 2 * len(self._open) >= self._most

    def add(self, key: Key, seconds: float | None = None) -> Deferred[Answer | None]:
        """Return the answer to come; None after `seconds`."""
        assert key not in self._open
        answer: Deferred[Answer | None] = Deferred()
        timer = None if seconds is None else self._clock.callLater(seconds, self.settle, key, None)
        self._open[key] = answer, timer
        return answer

    def settle(self, key: Key, result: Answer | None) -> bool:
        """End a request. Return False if it is not open: late, repeated, or never sent."""
        answer, timer = self._open.pop(key, (None, None))
        if timer is not None and timer.active():
            timer.cancel()
        if answer is not None:
            answer.callback(result)
        return answer is not None

    def settle_all(self) -> None:
        for key in list(self._open):
            self.settle(key, None)
