"""Leases of readers: what was there when one began is not deleted while it lasts.

`readers/<token>.json` holds `{"began": ms, "until": ms}`.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from types import TracebackType
from typing import Final

from broker.archive.layout import READERS
from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveObjectMissing

#: How long (ms) a lease lasts that its reader does not refresh.
LEASE_MS: Final = 600_000
#: A refresh writes when so much of that has passed.
_RENEW_MS: Final = LEASE_MS // 4


class ReaderLease:
    """The lease of one reader, from the beginning to the end of a `with` block."""

    def __init__(self, objects: ObjectStore, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
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
        """Hold it on; cheap when that was done a moment ago. `ArchiveUnavailable`."""
        now = self._wall_clock()
        if now - self._written >= _RENEW_MS:
            content = {"began": self.began, "until": now + LEASE_MS}
            self._objects.put([(self._path, json.dumps(content).encode())])
            self._written = now


def oldest_lease_start(objects: ObjectStore, now: int) -> int:
    """When the oldest reader began that is still there; `now` if there is none. Ms since 1970.

    A lease that can not be read is one that began before everything.
    """
    oldest = now
    for each in objects.list_objects(READERS):
        try:
            content = json.loads(objects.get(each.path))
            began, until = int(content["began"]), int(content["until"])
        except ArchiveObjectMissing:
            continue
        except (ValueError, KeyError, TypeError):
            began, until = 0, each.modified + LEASE_MS
        if until > now:
            oldest = min(oldest, began)
    return oldest


def abandoned_leases(objects: ObjectStore, now: int) -> list[str]:
    """The paths of leases whose readers went without a word: a whole lease's time ago."""
    return [
        each.path for each in objects.list_objects(READERS) if each.modified + 2 * LEASE_MS < now
    ]
