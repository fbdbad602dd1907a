"""The lease for maintaining an archive that several nodes share.

Object stores may lack an atomic exchange: two processes may acquire it at once. Each stops when it
reads another name. Work done twice is harmless. `care.json` holds `{"carer": name, "until": ms,
"expired": ms}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import attrs

from broker.archive.journal import MALFORMED
from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveObjectMissing

PATH: Final = "care.json"
#: Ms of a lease without renewal: longer than the largest merge.
MAINTENANCE_LEASE_MS: Final = 600_000
_RENEW_MS: Final = MAINTENANCE_LEASE_MS // 10


@attrs.frozen
class _LeaseContent:
    carer: str = ""
    until: int = 0
    expired: int = 0


class MaintenanceLease:
    """The lease for one process. All methods may raise `ArchiveUnavailable`."""

    def __init__(self, objects: ObjectStore, carer: str, wall_clock: Callable[[], int]) -> None:
        """`carer` is a unique name; `wall_clock` returns ms since 1970."""
        self._objects = objects
        self._carer = carer
        self._wall_clock = wall_clock
        self._written = 0

    def is_free(self) -> bool:
        return self._is_available(self._read())

    def last_expiry(self) -> int:
        """Return the last expiry of any process, in ms since 1970, or 0."""
        return self._read().expired

    def acquire(self) -> bool:
        content = self._read()
        if not self._is_available(content):
            return False
        self._write(attrs.evolve(content, until=self._wall_clock() + MAINTENANCE_LEASE_MS))
        # The later writer holds the lease.
        return self._read().carer == self._carer

    def renew(self) -> bool:
        """Return False if another process holds the lease. Cheap if called often."""
        now = self._wall_clock()
        if 0 <= now - self._written < _RENEW_MS:
            return True
        content = self._read()
        if not self._is_available(content):
            return False
        self._write(attrs.evolve(content, until=now + MAINTENANCE_LEASE_MS))
        return True

    def release(self, *, expired: bool) -> None:
        """`expired` records that expiry is done."""
        content = self._read()
        if content.carer == self._carer:
            when = self._wall_clock() if expired else content.expired
            self._write(_LeaseContent(self._carer, 0, when))

    def _is_available(self, content: _LeaseContent) -> bool:
        now = self._wall_clock()
        # A longer lease comes from a wrong clock.
        return (
            content.carer == self._carer
            or not now < content.until <= now + 2 * MAINTENANCE_LEASE_MS
        )

    def _read(self) -> _LeaseContent:
        try:
            content = json.loads(self._objects.get(PATH))
            return _LeaseContent(
                str(content["carer"]), int(content["until"]), int(content["expired"])
            )
        except (ArchiveObjectMissing, *MALFORMED):
            return _LeaseContent()

    def _write(self, content: _LeaseContent) -> None:
        content = attrs.evolve(content, carer=self._carer)
        self._objects.put([(PATH, json.dumps(attrs.asdict(content)).encode())])
        self._written = self._wall_clock()
