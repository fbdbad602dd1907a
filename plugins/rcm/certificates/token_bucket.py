"""Rate limit of one site's packets about certificates."""

from __future__ import annotations

from typing import Final

#: A certificate costs 1: to check a signature takes about 0.15 ms.
RATE: Final = 512.0
BURST: Final = 1_024.0
#: A page of leaves is long.
PAGE_COST: Final = 16.0


class TokenBucket:
    def __init__(self) -> None:
        self._tokens = BURST
        self._filled_at: float | None = None

    def take(self, cost: float, now: float) -> bool:
        """Return False if the rate is exceeded."""
        if self._filled_at is not None:
            self._tokens = min(BURST, self._tokens + (now - self._filled_at) * RATE)
        self._filled_at = now
        if self._tokens < cost:
            return False
        self._tokens -= cost
        return True
