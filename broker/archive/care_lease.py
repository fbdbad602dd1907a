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

from broker.archive.objects import Objects
from broker.errors import ArchiveObjectMissing

PATH: Final = "care.json"
#: How long (ms) it lasts when its carer dies: more than the largest merge takes.
CARE_LEASE_MS: Final = 600_000
_REFRESH_MS: Final = CARE_LEASE_MS // 10


@attrs.frozen
class _Said:
    carer: str = ""
    until: int = 0
    expired: int = 0


class CareLease:
    """The lease, as one carer sees it. All methods may raise `ArchiveUnavailable`."""

    def __init__(self, objects: Objects, carer: str, wall_clock: Callable[[], int]) -> None:
        """`carer` is a name that nobody else has; `wall_clock` gives ms since 1970."""
        self._objects = objects
        self._carer = carer
        self._wall_clock = wall_clock
        self._written = 0

    def is_free(self) -> bool:
        """Whether nobody else has it."""
        return self._is_mine_to_take(self._read())

    def expired(self) -> int:
        """When somebody last deleted what was to be deleted, ms since 1970; 0: never."""
        return self._read().expired

    def take(self) -> bool:
        """Have it, if nobody else has."""
        said = self._read()
        if not self._is_mine_to_take(said):
            return False
        self._write(attrs.evolve(said, until=self._wall_clock() + CARE_LEASE_MS))
        # Of two that wrote at once the later one has it.
        return self._read().carer == self._carer

    def refresh(self) -> bool:
        """Hold it on; False if another one has it now. Cheap when that was done a moment ago."""
        now = self._wall_clock()
        if 0 <= now - self._written < _REFRESH_MS:
            return True
        said = self._read()
        if not self._is_mine_to_take(said):
            return False
        self._write(attrs.evolve(said, until=now + CARE_LEASE_MS))
        return True

    def release(self, *, expired: bool) -> None:
        """Others may have it; `expired`: what was to be deleted is."""
        said = self._read()
        if said.carer == self._carer:
            when = self._wall_clock() if expired else said.expired
            self._write(_Said(self._carer, 0, when))

    def _is_mine_to_take(self, said: _Said) -> bool:
        now = self._wall_clock()
        # One that lasts longer than any can is of a clock that went wrong.
        return said.carer == self._carer or not now < said.until <= now + 2 * CARE_LEASE_MS

    def _read(self) -> _Said:
        try:
            said = json.loads(self._objects.get(PATH))
            return _Said(str(said["carer"]), int(said["until"]), int(said["expired"]))
        except (ArchiveObjectMissing, ValueError, KeyError, TypeError):
            return _Said()

    def _write(self, said: _Said) -> None:
        said = attrs.evolve(said, carer=self._carer)
        self._objects.put([(PATH, json.dumps(attrs.asdict(said)).encode())])
        self._written = self._wall_clock()
