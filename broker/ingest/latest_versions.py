"""LatestVersionNum: an event says that its type has a newer version (Mspaces M29).

The newer version is looked up, so whoever reads the type learns what changes (M16) before the first
event of the newer version.
"""

from __future__ import annotations

from typing import Final

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BadName, InvalidEvent
from broker.event.envelope import Header
from broker.event.reader import read_latest_version

#: Versions that were looked up.
_MAX_CACHED_VERSIONS: Final = 1000


class LatestVersions:
    """Looks up versions that events name, each once."""

    def __init__(self, dtds: IDtdCache) -> None:
        self._dtds = dtds
        self._looked_up: set[DtdReference] = set()
        self.named_count = 0
        """Newer versions that events have named."""

    def look_up_named(self, document: bytes, header: Header) -> None:
        """A valid event may name a newer version than its own. It is parsed, for a comment can
        hold what looks like one."""
        try:
            version = read_latest_version(document)
            reference = DtdReference(header.type_name, header.version)
            latest = reference if version is None else DtdReference(header.type_name, version.strip())
        except (BadName, InvalidEvent):
            return
        if reference < latest and latest not in self._looked_up:
            if len(self._looked_up) >= _MAX_CACHED_VERSIONS:
                self._looked_up.clear()
            self._looked_up.add(latest)
            self.named_count += 1
            self._dtds.lookup(latest, FetchHint()).addErrback(lambda _: self._allow_retry(latest))

    def _allow_retry(self, latest: DtdReference) -> None:
        """The version could not be had: a later event is a reason to look again."""
        self._looked_up.discard(latest)
