"""A token bucket (sans-I/O)."""

from __future__ import annotations


class TokenBucket:
    """Tokens that are earned at a rate, up to a capacity; full at the start.

    `take` may take more than there are: then the bucket is in debt until it has earned them. So
    fractions add up, and something larger than the capacity passes once in its time. Times are in
    seconds.
    """

    def __init__(self, rate: float, capacity: float, now: float) -> None:
        self.rate = rate
        self.capacity = capacity
        self._tokens = capacity
        self._filled_at = now

    def tokens_at(self, now: float) -> float:
        if now > self._filled_at:
            earned = (now - self._filled_at) * self.rate
            self._tokens = min(self.capacity, self._tokens + earned)
            self._filled_at = now
        return self._tokens

    def take(self, tokens: float, now: float) -> None:
        self._tokens = self.tokens_at(now) - tokens

    def seconds_until(self, tokens: float, now: float) -> float:
        """Return the time until there are as many; 0.0 if there are."""
        return max(0.0, (min(tokens, self.capacity) - self.tokens_at(now)) / self.rate)
