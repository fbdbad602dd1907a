"""Search for DTD texts that manifests list and that are damaged or missing."""

from __future__ import annotations

from broker.archive.archive import Archive
from broker.archive.layout import DTDS
from broker.archive.manifest_entry import DtdText
from broker.errors import ArchiveCorrupt


class DtdCheck:
    """Search for damaged DTD texts; a sound one is read again only if its object changed."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._sound: dict[str, tuple[int, int]] = {}
        """(bytes, ms since 1970) of each sound object, by path."""

    def find_damaged(self) -> list[DtdText]:
        """Return damaged and missing texts. Raises `ArchiveUnavailable`."""
        everything = self._archive.state().manifest
        listed = {e.path: (e.bytes, e.modified) for e in self._archive.objects.list_objects(DTDS)}
        lost: list[DtdText] = []
        for text in sorted(everything.dtds):
            stamp = listed.get(text.path)
            if stamp is None or (self._sound.get(text.path) != stamp and not self._is_sound(text)):
                lost.append(text)
            else:
                self._sound[text.path] = stamp
        return lost

    def _is_sound(self, text: DtdText) -> bool:
        try:
            self._archive.read_dtd_text(text)
        except ArchiveCorrupt:
            return False
        return True
