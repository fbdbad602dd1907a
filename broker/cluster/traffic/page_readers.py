"""Who reads pages of the own log, and how often each asks for the same one."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.cluster.address import Address
from broker.event.place import Mark

#: Seconds after which one who reads pages, and has asked for none, is taken not to read any more.
READER_TIMEOUT = 10.0
#: Pages that are sent for one question that is asked again and again. Then it is taken that the way
#: is not cleared where this node can not see it, and only what anybody may see is sent.
MAX_REPEATS = 6
#: Nodes that read pages at one time; more are not heard, and ask again.
MAX_READERS = 1_024


@attrs.define
class PageReader:
    """A node that reads pages of the own log."""

    expires_at: float
    sent_upto: Mark
    """How far events had been sent when it asked last: from there on it is sent them."""


class PageReaders:
    """All of them."""

    def __init__(self) -> None:
        self._readers: dict[Address, PageReader] = {}
        self._repeated: OrderedDict[Address, tuple[Mark, int]] = OrderedDict()
        """From where readers asked last, and how often again."""

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, address: Address) -> PageReader | None:
        """The reader at this address."""
        return self._readers.get(address)

    def add_request(self, address: Address, after: Mark, upto: Mark, now: float) -> bool:
        """Somebody asks for what is behind `after`; whether there is room for it."""
        if address not in self._readers and len(self._readers) >= MAX_READERS:
            return False
        before, times = self._repeated.pop(address, (after, 0))
        self._repeated[address] = (after, times + 1 if before == after else 0)
        if len(self._repeated) > MAX_READERS:
            self._repeated.popitem(last=False)
        self._readers[address] = PageReader(now + READER_TIMEOUT, upto)
        return True

    def is_repeating(self, address: Address) -> bool:
        """Whether it asks for the same again and again: what it was sent does not reach it."""
        return self._repeated.get(address, ((0, 0), 0))[1] > MAX_REPEATS

    def next_timeout(self) -> float | None:
        """When one may be gone."""
        return min((each.expires_at for each in self._readers.values()), default=None)

    def remove_expired(self, now: float) -> list[Address]:
        """Forget who reads no more."""
        expired = [address for address, reader in self._readers.items() if reader.expires_at <= now]
        for address in expired:
            del self._readers[address]
        return expired
