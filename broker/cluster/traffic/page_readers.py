"""Who reads pages of the own log, and how often each asks for the same one."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.cluster.address import Address
from broker.event.place import Mark

#: Seconds after which one who reads pages, and has asked for none, is taken not to read any more.
READS_ON = 10.0
#: Pages that are sent for one question that is asked again and again. Then it is taken that the way
#: is not cleared where this node can not see it, and only what anybody may see is sent.
MOST_PAGES = 6
#: Nodes that read pages at one time; more are not heard, and ask again.
MOST_READERS = 1_024


@attrs.define
class Reader:
    """A node that reads pages of the own log."""

    until: float
    upto: Mark
    """How far events had been sent when it asked last: from there on it is sent them."""


class Readers:
    """All of them."""

    def __init__(self) -> None:
        self._readers: dict[Address, Reader] = {}
        self._repeated: OrderedDict[Address, tuple[Mark, int]] = OrderedDict()
        """From where readers asked last, and how often again."""

    def __len__(self) -> int:
        return len(self._readers)

    def get(self, address: Address) -> Reader | None:
        """The reader at this address."""
        return self._readers.get(address)

    def ask(self, address: Address, after: Mark, upto: Mark, now: float) -> bool:
        """Somebody asks for what is behind `after`; whether there is room for it."""
        if address not in self._readers and len(self._readers) >= MOST_READERS:
            return False
        before, times = self._repeated.pop(address, (after, 0))
        self._repeated[address] = (after, times + 1 if before == after else 0)
        if len(self._repeated) > MOST_READERS:
            self._repeated.popitem(last=False)
        self._readers[address] = Reader(now + READS_ON, upto)
        return True

    def asks_in_vain(self, address: Address) -> bool:
        """Whether it asks for the same again and again: what it was sent does not reach it."""
        return self._repeated.get(address, ((0, 0), 0))[1] > MOST_PAGES

    def next_timeout(self) -> float | None:
        """When one may be gone."""
        return min((each.until for each in self._readers.values()), default=None)

    def gone(self, now: float) -> list[Address]:
        """Forget who reads no more."""
        gone = [address for address, reader in self._readers.items() if reader.until <= now]
        for address in gone:
            del self._readers[address]
        return gone
