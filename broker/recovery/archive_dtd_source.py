"""The archive as a source of DTDs (X9)."""

from __future__ import annotations

import attrs
from twisted.internet.defer import Deferred
from zope.interface import implementer

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.reference import DtdReference
from broker.errors import UnknownType
from broker.recovery.archive_access import ArchiveAccess


@implementer(IDtdSource)
@attrs.frozen
class ArchiveDtdSource:
    archive: ArchiveAccess
    name: str = attrs.field(default="the archive", init=False)

    def fetch(self, reference: DtdReference, hint: FetchHint) -> Deferred[bytes]:
        """Fails with `UnknownType` if there is no DTD, or no answer."""

        def found(text: bytes | None) -> bytes:
            if text is None:
                raise UnknownType("has no such DTD")
            return text

        return self.archive.find_dtd(reference).addCallback(found)
