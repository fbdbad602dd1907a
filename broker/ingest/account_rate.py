"""Rates of accounts: events and bytes that their sessions publish (Q20, sans-I/O).

At its bound an account waits: its documents stay in the windows of its sessions, and its clients
send less. Nothing is refused or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from typing import Final

import attrs

from broker.config.limits import LimitSettings
from broker.limit_registry import LimitRegistry
from broker.transport.token_bucket import TokenBucket

#: Seconds of a rate that an idle account may publish at once.
BURST_SECONDS: Final = 1.0
#: An account at its bound continues with so many seconds' worth.
STEP_SECONDS: Final = 0.05


@attrs.frozen
class RateLimits:
    """Of each account, in a second; 0 is no limit."""

    events: int = 0
    bytes: int = 0

    @classmethod
    def from_settings(cls, settings: LimitSettings) -> RateLimits:
        return cls(settings.account_events_per_second, settings.account_bytes_per_second)


class AccountRate:
    """The rate of one account, shared by its sessions.

    A document is taken if there is a token for it and any for its bytes. A longer one than the
    burst passes alone, and the next one waits until its bytes are earned.
    """

    def __init__(self, limits: RateLimits, now: float) -> None:
        self.limits = limits
        self.events = _make_bucket(limits.events, now)
        self.bytes = _make_bucket(limits.bytes, now)

    def find_wait(self, now: float) -> float:
        """Return the seconds until the account may go on; 0.0: it may."""
        return max(_find_wait(self.events, now), _find_wait(self.bytes, now))

    def count_allowed(self, documents: Iterable[bytes], now: float) -> int:
        """Return how many of the next documents may be taken; at least 1 if `find_wait` is 0."""
        events, size = _tokens(self.events, now), _tokens(self.bytes, now)
        allowed = 0
        for document in documents:
            if events < 1 or size < 1:
                break
            events -= 1
            size -= len(document)
            allowed += 1
        return allowed

    def take(self, documents: Iterable[bytes], now: float) -> None:
        """Count documents that were taken."""
        lengths = [len(document) for document in documents]
        if self.events is not None:
            self.events.take(len(lengths), now)
        if self.bytes is not None:
            self.bytes.take(sum(lengths), now)


class AccountRates:
    """Rates of the accounts that publish."""

    def __init__(
        self,
        limits: RateLimits,
        now: Callable[[], float],
        limit_registry: LimitRegistry,
    ) -> None:
        """`now` returns monotonic seconds."""
        self.limits = limits
        """May be replaced at any time; if they changed, accounts start with full buckets."""
        self._now = now
        self._rates: dict[str, AccountRate] = {}
        self._event_limit = limit_registry.add(
            "account-events-per-second",
            per="account",
            setting="limits.account_events_per_second",
            bound=lambda: self.limits.events,
            used=lambda: self._most_used(each.events for each in self._rates.values()),
        )
        self._byte_limit = limit_registry.add(
            "account-bytes-per-second",
            per="account",
            setting="limits.account_bytes_per_second",
            bound=lambda: self.limits.bytes,
            used=lambda: self._most_used(each.bytes for each in self._rates.values()),
        )

    def _most_used(self, buckets: Iterable[TokenBucket | None]) -> float:
        now = self._now()
        return max((each.capacity - each.tokens_at(now) for each in buckets if each), default=0.0)

    def find(self, account: str) -> AccountRate | None:
        """Return the rate of an account; None for no limit, also without accounts."""
        limits = self.limits
        if not account or not (limits.events or limits.bytes):
            return None
        rate = self._rates.get(account)
        if rate is None or rate.limits != limits:
            rate = self._rates[account] = AccountRate(limits, self._now())
        return rate

    def count_wait(self, rate: AccountRate) -> None:
        """Count that an account waits at its bound."""
        now = self._now()
        if _find_wait(rate.events, now):
            self._event_limit.count_reached()
        if _find_wait(rate.bytes, now):
            self._byte_limit.count_reached()


def _make_bucket(rate: int, now: float) -> TokenBucket | None:
    return TokenBucket(rate, max(1.0, rate * BURST_SECONDS), now) if rate else None


def _find_wait(bucket: TokenBucket | None, now: float) -> float:
    if bucket is None or bucket.tokens_at(now) >= 1:
        return 0.0
    return bucket.seconds_until(max(1.0, bucket.rate * STEP_SECONDS), now)


def _tokens(bucket: TokenBucket | None, now: float) -> float:
    return inf if bucket is None else bucket.tokens_at(now)
