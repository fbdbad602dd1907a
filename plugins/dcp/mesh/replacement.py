"""Parents that end as soon as others have proven themselves (DCP D67; X5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from plugins.dcp.connection import Connection
from plugins.dcp.control import Reinitialise
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.parents import Parent, Parents

#: A child gives its permission after this time, even without another parent.
_PERMIT_AFTER: Final = 5.0


class Replacement:
    def __init__(
        self, endpoint: Endpoint, parents: Parents, count: Callable[[], int], now: float
    ) -> None:
        """`count` returns the number of parents that the node seeks."""
        self._endpoint = endpoint
        self._parents = parents
        self._count = count
        self._began_at = now
        """Time of the newest one."""
        self._permits: dict[Connection, float] = {}
        """Parents that wait for permission, each with the time at which it is given."""

    def begin(self, parent: Parent, now: float, *, asks_permission: bool = False) -> None:
        """Let a parent end when others bring its events.

        With `asks_permission` it ends by itself, and waits for this node.
        """
        if asks_permission:
            self._permits[parent.connection] = now + _PERMIT_AFTER
        parent.is_leaving = True
        self._began_at = now
        for each in self._parents:
            each.connection.probe()

    def remove(self, connection: Connection) -> None:
        self._permits.pop(connection, None)

    def next_timeout(self) -> float | None:
        return min(self._permits.values(), default=None)

    def end_replaced(self, now: float) -> None:
        """End leaving parents as soon as others have proven themselves, and give permissions."""
        leaving = [each for each in self._parents if each.is_leaving]
        if not leaving:
            return
        proven = [
            each
            for each in self._parents
            if not each.is_leaving
            # A parent that is dead, and not given up yet, does not count.
            and each.connection.liveness.received_at > self._began_at
            and self._parents.is_proven(each.connection)
        ]
        for connection, until in list(self._permits.items()):
            if proven or now >= until:
                del self._permits[connection]
                connection.send_control(Reinitialise())
        if len(proven) >= min(self._count(), len(leaving)):
            for parent in leaving:
                if parent.connection not in self._permits:
                    self._endpoint.close(parent.connection, "moved", now)
