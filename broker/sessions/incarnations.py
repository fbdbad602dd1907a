"""Newest incarnation of each client, which later processes of the client exceed.

Incarnations are microseconds of wall time. Without a bound, one client could use the highest
number and lock all later processes out.
"""

from __future__ import annotations

import hmac
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twisted.logger import Logger

from broker.errors import IncarnationAhead, IncarnationRefused
from broker.log.event_log import EventLog

#: Microseconds by which an incarnation may be ahead of the node's clock.
MAX_AHEAD: Final = 10 * 60 * 1_000_000
#: Cached newest incarnations; the log has all.
_MAX_CACHED_CLIENTS: Final = 10_000
#: Clients in one report; further ones are counted.
MAX_REPORTED: Final = 100
_NEWEST_STRUCT: Final = struct.Struct(">Q16s")


class Incarnations:
    """Incarnations with the token of their process, stored in the log."""

    log = Logger()

    def __init__(self, event_log: EventLog, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns ms since 1970."""
        self._event_log = event_log
        self._wall_clock = wall_clock
        self._newest: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._ahead: dict[str, int] = {}

    def start(self) -> None:
        """Find stored incarnations that are too far ahead, as earlier versions accepted them."""
        least = _NEWEST_STRUCT.pack(self._bound, b"\xff" * 16)
        found = self._event_log.clients_above(least)
        found.addCallbacks(
            self._report_ahead,
            lambda failure: self.log.error("{error}", error=failure.value),
        )

    @property
    def _bound(self) -> int:
        return self._wall_clock() * 1000 + MAX_AHEAD

    def check(self, client_id: str, incarnation: int, token: bytes) -> None:
        """Raises `IncarnationRefused` for another process that is not newer, and
        `IncarnationAhead` for a number that is neither near the clock nor the next one."""
        newest, newest_token = self._find_newest(client_id)
        if incarnation < newest or (
            incarnation == newest and not hmac.compare_digest(token, newest_token)
        ):
            raise IncarnationRefused(
                f"incarnation {incarnation} of {client_id} is not above {newest}, "
                "which another process of this client has used"
            )
        if incarnation > max(self._bound, newest + 1):
            minutes = (incarnation // 1000 - self._wall_clock()) // 60_000
            raise IncarnationAhead(
                f"incarnation {incarnation} of {client_id} is {minutes} minutes ahead of this "
                f"node's clock; {MAX_AHEAD // 60_000_000} minutes are the limit"
            )

    def store(self, client_id: str, incarnation: int, token: bytes) -> None:
        """Store a checked incarnation."""
        if incarnation <= self._find_newest(client_id)[0]:
            return
        self._cache(client_id, (incarnation, token))
        self._event_log.put_client(client_id, _NEWEST_STRUCT.pack(incarnation, token))

    def reset(self, client_id: str) -> int:
        """Delete the stored incarnation, and return it; 0 without one."""
        newest, _ = self._find_newest(client_id)
        if newest:
            # The log returns the old value until the commit.
            self._cache(client_id, (0, b""))
            self._event_log.put_client(client_id, None)
            self._ahead.pop(client_id, None)
        return newest

    def snapshot(self) -> Mapping[str, Any]:
        """Return clients whose stored incarnation is too far ahead."""
        bound = self._bound
        ahead = sorted(client for client, number in self._ahead.items() if number > bound)
        return {"count": len(ahead), "clients": ahead[:MAX_REPORTED]}

    def _cache(self, client_id: str, newest: tuple[int, bytes]) -> None:
        self._newest[client_id] = newest
        while len(self._newest) > _MAX_CACHED_CLIENTS:
            self._newest.popitem(last=False)

    def _find_newest(self, client_id: str) -> tuple[int, bytes]:
        newest = self._newest.get(client_id)
        if newest is None:
            stored = self._event_log.newest_incarnation(client_id)
            newest = (0, b"") if stored is None else _NEWEST_STRUCT.unpack(stored)
        return newest

    def _report_ahead(self, found: Sequence[tuple[str, bytes]]) -> None:
        self._ahead = {
            client: number
            for client, value in found
            for number in (_NEWEST_STRUCT.unpack(value)[0],)
            # It may have been reset meanwhile.
            if client not in self._newest or self._newest[client][0] == number
        }
        report = self.snapshot()
        if report["count"]:
            self.log.warn(
                "{count} clients have used incarnations more than 10 minutes ahead of the clock; "
                "`xmlbroker client reset ID` deletes them: {clients}",
                count=report["count"],
                clients=", ".join(report["clients"]),
            )
