"""The places that a node offers to children (DCP D17, D63, T43, T44)."""

from __future__ import annotations

from typing import Final, NamedTuple

from plugins.dcp.connection import Connection
from plugins.dcp.control import MOST_LEVEL, Join

#: Time for which a place is reserved for a node that asked for it, in seconds.
LEASE_SECONDS: Final = 2.0
#: New children in a second, and at once: after the death of a node many ask together.
_RATE: Final = 50.0
_BURST: Final = 50.0


class _Lease(NamedTuple):
    join: Join
    until: float


class Admission:
    """Reserves places for nodes that ask, until they take them or the lease ends."""

    def __init__(self, most_children: int) -> None:
        self.refusals: dict[str, int] = {}
        """By reason."""
        self.most_children = most_children
        self._leases: dict[Connection, _Lease] = {}
        self._tokens = _BURST
        self._filled_at = 0.0

    def __contains__(self, connection: object) -> bool:
        return connection in self._leases

    def reserve(
        self,
        connection: Connection,
        join: Join,
        own_level: int,
        children: int | None,
        now: float,
        *,
        refusal: str = "",
    ) -> str:
        """Reserve a place for a node. Without a number of children there is room.

        `refusal` is a reason for which this node accepts none. Return the reason of a refusal;
        empty: the place is reserved.
        """
        self._tokens = min(_BURST, self._tokens + (now - self._filled_at) * _RATE)
        self._filled_at = now
        reason = refusal or self._find_refusal(join.level, own_level, children)
        if reason:
            self.refusals[reason] = self.refusals.get(reason, 0) + 1
            return reason
        self._tokens -= 1
        self._leases[connection] = _Lease(join, now + LEASE_SECONDS)
        return ""

    def _find_refusal(self, level: int, own_level: int, children: int | None) -> str:
        if own_level >= MOST_LEVEL or (level and own_level >= level):
            return "level"
        if children is not None and children + len(self._leases) >= self.most_children:
            return "capacity"
        return "busy" if self._tokens < 1 else ""

    def take(self, connection: Connection, own_level: int) -> tuple[Join, str]:
        """End a lease: the node takes its place. Return its question, and a reason of refusal.

        This node's level may have changed since the offer.
        """
        join = self._leases.pop(connection).join
        return join, "level" if join.level and own_level >= join.level else ""

    def remove(self, connection: Connection) -> None:
        self._leases.pop(connection, None)

    def next_timeout(self) -> float | None:
        return min((each.until for each in self._leases.values()), default=None)

    def take_expired(self, now: float) -> list[Connection]:
        """Return the connections of nodes that did not take their places."""
        expired = [each for each, lease in self._leases.items() if now >= lease.until]
        for connection in expired:
            del self._leases[connection]
        return expired
