"""Delays of logins after failures, for each pair of address and account (sans-I/O).

A pair and not an account alone: otherwise anyone could shut an account out.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Final

import attrs

#: Failures of a pair without a delay.
FREE_FAILURES: Final = 3
#: Seconds after the next failure, doubled after each further one.
FIRST_DELAY: Final = 1.0
MAX_DELAY: Final = 60.0
#: Seconds since the last failure after which a pair starts anew.
FORGET_AFTER: Final = 900.0
#: Pairs with failures. Beyond it the pair whose last failure is oldest is removed.
MAX_PAIRS: Final = 10_000
#: Further accounts of one address share an entry, so that one address can not fill the table.
MAX_PAIRS_PER_ADDRESS: Final = 64


@attrs.define
class _Entry:
    failures: int = 0
    failed_at: float = 0.0

    def wait_at(self, now: float) -> float:
        if self.failures <= FREE_FAILURES:
            return 0.0
        doublings = min(self.failures - FREE_FAILURES - 1, 10)
        delay = min(MAX_DELAY, FIRST_DELAY * (1 << doublings))
        return max(0.0, self.failed_at + delay - now)


class LoginDelays:
    """Failed logins by address and account. Times are in seconds."""

    def __init__(self) -> None:
        self._entries: OrderedDict[tuple[str, str | None], _Entry] = OrderedDict()
        self._pairs_of_address: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._entries)

    def find_wait(self, address: str, account: str, now: float) -> float:
        """Return the seconds until the pair may try again; 0.0: at once."""
        entry = self._entries.get(self._key(address, account))
        return 0.0 if entry is None else entry.wait_at(now)

    def longest_wait(self, now: float) -> float:
        return max((each.wait_at(now) for each in self._entries.values()), default=0.0)

    def record_failure(self, address: str, account: str, now: float) -> None:
        self._remove_old(now)
        key = self._key(address, account)
        if key not in self._entries:
            self._pairs_of_address[address] += 1
        entry = self._entries.setdefault(key, _Entry())
        entry.failures += 1
        entry.failed_at = now
        self._entries.move_to_end(key)
        if len(self._entries) > MAX_PAIRS:
            self._remove(next(iter(self._entries)))

    def record_success(self, address: str, account: str) -> None:
        """Start the pair anew."""
        key = self._key(address, account)
        if key in self._entries and key[1] is not None:
            self._remove(key)

    def _key(self, address: str, account: str) -> tuple[str, str | None]:
        key = (address, account)
        is_full = self._pairs_of_address[address] >= MAX_PAIRS_PER_ADDRESS
        return (address, None) if is_full and key not in self._entries else key

    def _remove_old(self, now: float) -> None:
        while self._entries:
            key, entry = next(iter(self._entries.items()))
            if now - entry.failed_at < FORGET_AFTER:
                return
            self._remove(key)

    def _remove(self, key: tuple[str, str | None]) -> None:
        del self._entries[key]
        self._pairs_of_address[key[0]] -= 1
        if not self._pairs_of_address[key[0]]:
            del self._pairs_of_address[key[0]]
