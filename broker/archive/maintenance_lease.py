"""Who cares for an archive that several nodes share: one at a time, as far as that can be had.

`care.json` holds `{"carer": name, "until": ms, "expired": ms}`. No store has to exchange it in one
step: two that take it at the same moment may both begin. Who finds another name in it ends; what
both have done by then is done twice, and harms nobody.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import attrs

from broker.archive.object_store import ObjectStore
from broker.errors import ArchiveObjectMissing

PATH: Final = "care.json"
#: How long (ms) it lasts when its carer dies: more than the largest merge takes.
MAINTENANCE_LEASE_MS: Final = 600_000
_RENEW_MS: Final = MAINTENANCE_LEASE_MS // 10


@attrs.frozen
class _LeaseContent:
    carer: str = ""
    until: int = 0
    expired: int = 0


class MaintenanceLease:
    """The lease, as one carer sees it. All methods may raise `ArchiveUnavailable`."""

    def __init__(self, objects: ObjectStore, carer: str, wall_clock: Callable[[], int]) -> None:
        """`carer` is a name that nobody else has; `wall_clock` gives ms since 1970."""
        self._objects = objects
        self._carer = carer
        self._wall_clock = wall_clock
        self._written = 0

    def is_free(self) -> bool:
        """Whether nobody else has it."""
        return self._is_available(self._read())

    def last_expiry(self) -> int:
        """When somebody last deleted what was to be deleted, ms since 1970; 0: never."""
        return self._read().expired

    def acquire(self) -> bool:
        """Have it, if nobody else has."""
        content = self._read()
        if not self._is_available(content):
            return False
        self._write(attrs.evolve(content, until=self._wall_clock() + MAINTENANCE_LEASE_MS))
        # Of two that wrote at once the later one has it.
        return self._read().carer == self._carer

    def renew(self) -> bool:
        """Hold it on; False if another one has it now. Cheap when that was done a moment ago."""
        now = self._wall_clock()
        if 0 <= now - self._written < _RENEW_MS:
            return True
        content = self._read()
        if not self._is_available(content):
            return False
        self._write(attrs.evolve(content, until=now + MAINTENANCE_LEASE_MS))
        return True

    def release(self, *, expired: bool) -> None:
        """Others may have it; `expired`: what was to be deleted is."""
        content = self._read()
        if content.carer == self._carer:
            when = self._wall_clock() if expired else content.expired
            self._write(_LeaseContent(self._carer, 0, when))

    def _is_available(self, content: _LeaseContent) -> bool:
        now = self._wall_clock()
        # One that lasts longer than any can is of a clock that went wrong.
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
        except (ArchiveObjectMissing, ValueError, KeyError, TypeError):
            return _LeaseContent()

    def _write(self, content: _LeaseContent) -> None:
        content = attrs.evolve(content, carer=self._carer)
        self._objects.put([(PATH, json.dumps(attrs.asdict(content)).encode())])
        self._written = self._wall_clock()
