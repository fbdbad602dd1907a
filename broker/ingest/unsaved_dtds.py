"""DTDs that are not on disk yet. After a restart their events could not be validated."""

from __future__ import annotations

from typing import Final, Protocol

from twisted.internet.defer import Deferred, succeed

from broker.dtd.reference import DtdReference


class UnsavedDtds(Protocol):
    def __bool__(self) -> bool: ...
    def is_unsaved(self, reference: DtdReference) -> bool: ...
    def when_write_settled(self, reference: DtdReference) -> Deferred[None]: ...


class _NoUnsavedDtds:
    def __bool__(self) -> bool:
        return False

    def is_unsaved(self, reference: DtdReference) -> bool:
        return False

    def when_write_settled(self, reference: DtdReference) -> Deferred[None]:
        return succeed(None)


NO_UNSAVED_DTDS: Final[UnsavedDtds] = _NoUnsavedDtds()
