"""Newest incarnation of each client, which later processes of the client exceed.

Incarnations are microseconds of wall time. Without a bound, one client could use the highest
number and lock all later processes out. The number of ClientIds is bounded too: an account may use
any that its pattern matches.
"""

from __future__ import annotations

import hmac
import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.errors import IncarnationAhead, IncarnationRefused
from broker.limit_registry import LimitRegistry
from broker.log.event_log import EventLog

#: Microseconds by which an incarnation may be ahead of the node's clock.
MAX_AHEAD: Final = 10 * 60 * 1_000_000
#: ClientIds in use that are skipped at once, to find one to forget.
_MAX_SKIPPED: Final = 100
#: Clients in one report; further ones are counted.
MAX_REPORTED: Final = 100
_NEWEST_STRUCT: Final = struct.Struct(">Q16s")


class Incarnations:
    """Incarnations with the token of their process, stored in the log."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        wall_clock: Callable[[], int],
        *,
        most_clients: Callable[[], int],
        is_in_use: Callable[[str], bool],
        limit_registry: LimitRegistry,
    ) -> None:
        """`wall_clock` returns ms since 1970, and `is_in_use` True for a ClientId with a session or
        a durable subscription."""
        self._event_log = event_log
        self._wall_clock = wall_clock
        self._most_clients = most_clients
        self._is_in_use = is_in_use
        self._newest: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        """The one that logged in longest ago is first."""
        self._is_loaded = False
        """Before, the log may have others."""
        self._has_failed = False
        """Then the log is asked for others."""
        self._ahead: dict[str, int] = {}
        self._limit = limit_registry.add(
            "client-incarnations",
            setting="limits.max_clients",
            bound=most_clients,
            used=lambda: len(self._newest),
        )

    def start(self) -> None:
        """Load what is stored. Report incarnations that are too far ahead, as earlier versions
        accepted them."""
        self._event_log.newest_incarnations().addCallbacks(self._load, self._fail_to_load)

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
        self._put(client_id, incarnation, token)
        self._event_log.put_client(client_id, _NEWEST_STRUCT.pack(incarnation, token))
        self._forget_oldest()

    def reset(self, client_id: str) -> int:
        """Delete the stored incarnation, and return it; 0 without one."""
        newest, _ = self._find_newest(client_id)
        if newest:
            # The log returns the old value until the commit.
            self._put(client_id, 0, b"")
            self._event_log.put_client(client_id, None)
            self._ahead.pop(client_id, None)
        return newest

    def snapshot(self) -> Mapping[str, Any]:
        """Return clients whose stored incarnation is too far ahead."""
        bound = self._bound
        ahead = sorted(client for client, number in self._ahead.items() if number > bound)
        return {"count": len(ahead), "clients": ahead[:MAX_REPORTED]}

    def _put(self, client_id: str, incarnation: int, token: bytes) -> None:
        self._newest[client_id] = (incarnation, token)
        self._newest.move_to_end(client_id)

    def _forget_oldest(self) -> None:
        """Forget ClientIds beyond the bound that are not in use, the oldest first."""
        while self._has_failed and len(self._newest) > self._most_clients():
            # The log keeps it, since its order is not known.
            self._newest.popitem(last=False)
        skipped = 0
        while self._is_loaded and len(self._newest) > self._most_clients():
            client_id = next(iter(self._newest))
            if self._is_in_use(client_id):
                self._newest.move_to_end(client_id)
                skipped += 1
                if skipped == _MAX_SKIPPED:
                    return
                continue
            del self._newest[client_id]
            self._ahead.pop(client_id, None)
            self._event_log.put_client(client_id, None)
            self._limit.count_reached()

    def _find_newest(self, client_id: str) -> tuple[int, bytes]:
        newest = self._newest.get(client_id)
        if newest is None and self._is_loaded:
            return 0, b""
        if newest is None:
            stored = self._event_log.newest_incarnation(client_id)
            newest = (0, b"") if stored is None else _NEWEST_STRUCT.unpack(stored)
        return newest

    def _fail_to_load(self, failure: Failure) -> None:
        self.log.error("incarnations can not be loaded: {error}", error=failure.value)
        self._has_failed = True
        self._forget_oldest()

    def _load(self, found: Sequence[tuple[str, bytes]]) -> None:
        stored = [(*_NEWEST_STRUCT.unpack(value), client) for client, value in found]
        # A client that has logged in meanwhile has a newer one.
        loaded = OrderedDict((client, (number, token)) for number, token, client in sorted(stored))
        for client_id, newest in self._newest.items():
            loaded[client_id] = newest
            loaded.move_to_end(client_id)
        self._newest, self._is_loaded = loaded, True
        bound = self._bound
        self._ahead = {client: number for client, (number, _) in loaded.items() if number > bound}
        self._forget_oldest()
        report = self.snapshot()
        if report["count"]:
            self.log.warn(
                "{count} clients have used incarnations more than 10 minutes ahead of the clock; "
                "`xmlbroker client reset ID` deletes them: {clients}",
                count=report["count"],
                clients=", ".join(report["clients"]),
            )
