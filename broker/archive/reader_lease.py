"""Leases of readers: objects that existed when a lease began are not deleted while it lasts.

`readers/<token>.json` holds `{"began": ms, "until": ms}`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Final

from broker.archive.journal import MALFORMED
from broker.archive.layout import READERS
from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveObjectMissing

#: Ms of a lease without renewal.
LEASE_MS: Final = 600_000
#: Ms after which a renewal writes again.
_RENEW_MS: Final = LEASE_MS // 4


class ReaderLease:
    """A reader's lease for the duration of a `with` block."""

    def __init__(self, objects: ObjectStore, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` returns ms since 1970."""
        self._objects = objects
        self._wall_clock = wall_clock
        self._path = f"{READERS}/{secrets.token_hex(8)}.json"
        self.began = wall_clock()
        """Ms since 1970."""
        self._written = 0

    def __enter__(self) -> ReaderLease:
        self.renew()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._objects.delete([self._path])

    def renew(self) -> None:
        """Renew the lease; cheap if called often. Raises `ArchiveUnavailable`."""
        now = self._wall_clock()
        if now - self._written >= _RENEW_MS:
            content = {"began": self.began, "until": now + LEASE_MS}
            self._objects.put([(self._path, json.dumps(content).encode())])
            self._written = now


def oldest_lease_start(objects: ObjectStore, now: int) -> int:
    """Return the start of the oldest lease in force, in ms since 1970, or `now`.

    An unreadable lease counts as oldest.
    """
    oldest = now
    for each in objects.list_objects(READERS):
        try:
            content = json.loads(objects.get(each.path))
            began, until = int(content["began"]), int(content["until"])
        except ArchiveObjectMissing:
            continue
        except MALFORMED:
            began, until = 0, each.modified + LEASE_MS
        if until > now:
            oldest = min(oldest, began)
    return oldest


def abandoned_leases(objects: ObjectStore, now: int) -> list[str]:
    """Return the paths of leases that ended at least a lease's duration ago."""
    return [
        each.path for each in objects.list_objects(READERS) if each.modified + 2 * LEASE_MS < now
    ]
