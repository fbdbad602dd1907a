"""Nodes that read pages of flows of the own log, and their repeated requests."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeAlias

import attrs

from broker.cluster.address import Address
from broker.event.place import Mark

#: A node, and the flow that it reads.
ReaderKey: TypeAlias = tuple[Address, str]

#: Seconds without a request.
READER_TIMEOUT = 10.0
#: Some link on the route may not be cleared: further pages hold only events of the common route.
MAX_REPEATS = 6
#: Other readers are ignored, and repeat their request.
MAX_READERS = 1_024


@attrs.define
class PageReader:
    expires_at: float
    sent_upto: Mark
    """At its last request; later frames go to it directly."""


class PageReaders:
    def __init__(self) -> None:
        self._readers: dict[ReaderKey, PageReader] = {}
        self._repeated: OrderedDict[ReaderKey, tuple[Mark, int]] = OrderedDict()
        """Start of the last request, and the number of requests with it."""

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, key: ReaderKey) -> PageReader | None:
        return self._readers.get(key)

    def add_request(self, key: ReaderKey, after: Mark, upto: Mark, now: float) -> bool:
        """Return False over the limit."""
        if key not in self._readers and len(self._readers) >= MAX_READERS:
            return False
        before, times = self._repeated.pop(key, (after, 0))
        self._repeated[key] = (after, times + 1 if before == after else 1)
        if len(self._repeated) > MAX_READERS:
            self._repeated.popitem(last=False)
        self._readers[key] = PageReader(now + READER_TIMEOUT, upto)
        return True

    def repeats(self, key: ReaderKey) -> int:
        """Return how often the last request repeats the one before."""
        return self._count(key) - 1

    def is_repeating(self, key: ReaderKey) -> bool:
        return self._count(key) > MAX_REPEATS

    def _count(self, key: ReaderKey) -> int:
        return self._repeated.get(key, ((0, 0), 1))[1]

    def next_timeout(self) -> float | None:
        return min((each.expires_at for each in self._readers.values()), default=None)

    def remove_expired(self, now: float) -> list[ReaderKey]:
        expired = [key for key, reader in self._readers.items() if reader.expires_at <= now]
        for key in expired:
            del self._readers[key]
        return expired
