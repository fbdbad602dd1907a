"""Connections before their authentication, bounded for each address and in all (sans-I/O).

A flood from one address delays other addresses little, since the fullest address loses a
connection first. After its authentication a connection counts no more, so clients behind one proxy
are not limited together.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Hashable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final, Generic, TypeVar

#: Addresses of earlier logins. The one with the oldest login leaves first.
MAX_KNOWN_ADDRESSES: Final = 10_000
#: A full address keeps connections for these seconds, so that floods do not stop its logins.
MIN_SECONDS: Final = 1.0
#: One part in so many of all connections is for addresses of earlier logins.
KNOWN_SHARE: Final = 4

C = TypeVar("C", bound=Hashable)


def address_group(host: str) -> str:
    """Return the key of an address in limits: an IPv6 address counts as its /64."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((int(address), 64), strict=False))


class PendingConnections(Generic[C]):
    """Connections that have to authenticate.

    `add` returns those to close. At the bound of an address this is its oldest connection, or the
    new one if none is `MIN_SECONDS` old. At the bound of all it is the oldest connection of the
    address with the most. A quarter of all is reserved for addresses of earlier logins.
    """

    def __init__(self) -> None:
        self._known_addresses: OrderedDict[str, None] = OrderedDict()
        self._known: _AddressTable[C] = _AddressTable()
        self._unknown: _AddressTable[C] = _AddressTable()
        self._tables: dict[C, tuple[_AddressTable[C], str]] = {}

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def most_of_one_address(self) -> int:
        return max(self._known.most, self._unknown.most)

    def add(
        self, connection: C, host: str, now: float, *, most: int, most_of_address: int
    ) -> list[C]:
        """Return connections to close, which are removed already; the new one may be among them.

        `most` and `most_of_address` are the bounds at this moment, `now` is in seconds.
        """
        address = address_group(host)
        is_known = address in self._known_addresses
        table = self._known if is_known else self._unknown
        if most < 1:
            return [connection]
        dropped = []
        if table.count_of(address) >= most_of_address:
            oldest, since = table.oldest_of(address)
            if now - since < MIN_SECONDS:
                return [connection]
            dropped.append(self._drop(oldest))
        while not is_known and len(self._unknown) >= max(1, most - most // KNOWN_SHARE):
            dropped.append(self._drop(self._unknown.oldest_of_fullest()))
        while len(self) >= most:
            fuller = self._known if self._known.most > self._unknown.most else self._unknown
            dropped.append(self._drop(fuller.oldest_of_fullest()))
        table.add(connection, address, now)
        self._tables[connection] = (table, address)
        return dropped

    def remove(self, connection: C) -> None:
        """Count a connection no more, if it still counts."""
        found = self._tables.pop(connection, None)
        if found is not None:
            table, address = found
            table.remove(connection, address)

    @property
    def known_addresses(self) -> list[str]:
        """The one with the oldest login is first."""
        return list(self._known_addresses)

    def add_known_address(self, host: str) -> None:
        """Record a login from an address."""
        address = address_group(host)
        self._known_addresses[address] = None
        self._known_addresses.move_to_end(address)
        if len(self._known_addresses) > MAX_KNOWN_ADDRESSES:
            self._known_addresses.popitem(last=False)

    def _drop(self, connection: C) -> C:
        self.remove(connection)
        return connection


class _AddressTable(Generic[C]):
    """Connections by address, and addresses by their number of connections."""

    def __init__(self) -> None:
        self.most = 0
        """Connections of the fullest address."""
        self._connections: dict[str, dict[C, float]] = {}
        """With their times, the oldest first."""
        self._by_count: defaultdict[int, dict[str, None]] = defaultdict(dict)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def count_of(self, address: str) -> int:
        return len(self._connections.get(address, ()))

    def oldest_of(self, address: str) -> tuple[C, float]:
        return next(iter(self._connections[address].items()))

    def oldest_of_fullest(self) -> C:
        return self.oldest_of(next(iter(self._by_count[self.most])))[0]

    def add(self, connection: C, address: str, now: float) -> None:
        self._connections.setdefault(address, {})[connection] = now
        self._count += 1
        self._recount(address, +1)

    def remove(self, connection: C, address: str) -> None:
        del self._connections[address][connection]
        self._count -= 1
        self._recount(address, -1)
        if not self._connections[address]:
            del self._connections[address]

    def _recount(self, address: str, change: int) -> None:
        count = len(self._connections[address])
        before = self._by_count[count - change]
        before.pop(address, None)
        if not before:
            del self._by_count[count - change]
        if count:
            self._by_count[count][address] = None
        if count > self.most or self.most not in self._by_count:
            self.most = count
