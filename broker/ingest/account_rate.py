"""Rates of accounts: events, bytes and markup that their sessions publish (Q20, sans-I/O).

At its bound an account waits: its documents stay in the windows of its sessions, and its clients
send less. Nothing is refused or lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final

import attrs

from broker.config.limits import LimitSettings
from broker.limit_registry import LimitRegistry
from broker.matching.document_limits import MAX_MARKUP, count_markup
from broker.transport.token_bucket import TokenBucket

#: Seconds of a rate that an idle account may publish at once.
BURST_SECONDS: Final = 1.0
#: An account at its bound continues with so many seconds' worth.
STEP_SECONDS: Final = 0.05
#: An event with more tags and attributes is large: the node stops for its matching.
LARGE_MARKUP: Final = 4_096
#: `<a/>` has 4 bytes.
_LARGE_BYTES: Final = 4 * LARGE_MARKUP


@attrs.frozen
class RateLimits:
    """Of each account, in a second; 0 is no limit."""

    events: int = 0
    bytes: int = 0
    markup: int = 0
    """Tags and attributes of events that have more than `LARGE_MARKUP`."""
    max_markup: int = MAX_MARKUP
    """Events with more are refused, and do not count."""

    @classmethod
    def from_settings(cls, settings: LimitSettings) -> RateLimits:
        return cls(
            settings.account_events_per_second,
            settings.account_bytes_per_second,
            settings.account_markup_per_second,
            settings.max_markup,
        )


def count_large_markup(limits: RateLimits, document: bytes) -> int:
    """Return the tags and attributes of a large event; 0 for others, and if it is refused."""
    if len(document) <= _LARGE_BYTES:
        return 0
    markup = count_markup(document, LARGE_MARKUP)
    return markup if LARGE_MARKUP < markup <= limits.max_markup else 0


#: Tokens for a document.
_COSTS: Final[Mapping[str, Callable[[RateLimits, bytes], int]]] = {
    "events": lambda _, document: 1,
    "bytes": lambda _, document: len(document),
    "markup": count_large_markup,
}


class AccountRate:
    """The rate of one account, shared by its sessions.

    A document is taken if there is a token for it and any for its bytes. A longer one than the
    burst passes alone, and the next one waits until its bytes are earned.
    """

    def __init__(self, limits: RateLimits, now: float) -> None:
        self.limits = limits
        self.buckets = {
            kind: TokenBucket(rate, rate * BURST_SECONDS, now)
            for kind in _COSTS
            if (rate := getattr(limits, kind))
        }

    def find_wait(self, now: float) -> float:
        """Return the seconds until the account may go on; 0.0: it may."""
        return max((_find_wait(bucket, now) for bucket in self.buckets.values()), default=0.0)

    def waits_for(self, now: float) -> list[str]:
        """Return the kinds of tokens that are used up."""
        return [kind for kind, bucket in self.buckets.items() if _find_wait(bucket, now)]

    def count_allowed(self, documents: Iterable[bytes], now: float) -> int:
        """Return how many of the next documents may be taken; at least 1 if `find_wait` is 0."""
        tokens = {kind: bucket.tokens_at(now) for kind, bucket in self.buckets.items()}
        allowed = 0
        for document in documents:
            if tokens and min(tokens.values()) < 1:
                break
            for kind in tokens:
                tokens[kind] -= _COSTS[kind](self.limits, document)
            allowed += 1
        return allowed

    def take(self, documents: Iterable[bytes], now: float) -> None:
        """Count documents that were taken."""
        taken = list(documents)
        for kind, bucket in self.buckets.items():
            bucket.take(sum(_COSTS[kind](self.limits, each) for each in taken), now)


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
        self._limits = {
            kind: limit_registry.add(
                f"account-{kind}-per-second",
                per="account",
                setting=f"limits.account_{kind}_per_second",
                bound=partial(self._bound_of, kind),
                used=partial(self._most_used, kind),
            )
            for kind in _COSTS
        }

    def _bound_of(self, kind: str) -> int:
        return int(getattr(self.limits, kind))

    def _most_used(self, kind: str) -> float:
        now = self._now()
        buckets = (each.buckets[kind] for each in self._rates.values() if kind in each.buckets)
        return max((each.capacity - each.tokens_at(now) for each in buckets), default=0.0)

    def find(self, account: str) -> AccountRate | None:
        """Return the rate of an account; None for no limit, also without accounts."""
        limits = self.limits
        if not account or not (limits.events or limits.bytes or limits.markup):
            return None
        rate = self._rates.get(account)
        if rate is None or rate.limits != limits:
            rate = self._rates[account] = AccountRate(limits, self._now())
        return rate

    def count_wait(self, rate: AccountRate) -> None:
        """Count that an account waits at its bound."""
        for kind in rate.waits_for(self._now()):
            self._limits[kind].count_reached()


def _find_wait(bucket: TokenBucket, now: float) -> float:
    if bucket.tokens_at(now) >= 1:
        return 0.0
    return bucket.seconds_until(max(1.0, bucket.rate * STEP_SECONDS), now)
