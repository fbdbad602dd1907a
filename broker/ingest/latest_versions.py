"""LatestVersionNum: an event names a newer version of its type (Mspaces M29).

Its look-up gives subscribers the changes (M16) early.
"""

from __future__ import annotations

from typing import Final

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadName, InvalidEvent
from broker.event.envelope import Header
from broker.event.reader import make_parser, read_latest_version
from broker.matching.separate_names import call_separately

_MAX_CACHED_VERSIONS: Final = 1000


class LatestVersions:
    """Looks up each named version once."""

    def __init__(self, dtds: IDtdCache) -> None:
        self._dtds = dtds
        self._looked_up: set[DtdReference] = set()
        self.named_count = 0

    def look_up_named(self, document: bytes, header: Header) -> None:
        """Parse the event, because a comment could contain the same text."""
        try:
            version = call_separately(lambda: read_latest_version(document, make_parser()))
            reference = DtdReference(header.type_name, header.version)
            latest = (
                reference if version is None else DtdReference(header.type_name, version.strip())
            )
        except (BadName, InvalidEvent):
            return
        if reference < latest and latest not in self._looked_up:
            if len(self._looked_up) >= _MAX_CACHED_VERSIONS:
                self._looked_up.clear()
            self._looked_up.add(latest)
            self.named_count += 1
            self._dtds.lookup(latest, FetchHint()).addErrback(lambda _: self._allow_retry(latest))

    def _allow_retry(self, latest: DtdReference) -> None:
        self._looked_up.discard(latest)
