"""DTD texts on disk: one file a text, named by type, version and content hash (M13, M17).

A folder for each owner holds the texts that it brought: an account, or another node. A text is
read when an event needs it, and its hash is verified each time. A damaged file is removed, and
the text is fetched again. The names are the index: no other file has to agree with them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import attrs
from twisted.logger import Logger

from broker.dtd.reference import DtdReference
from broker.dtd.whole_file import write_whole
from broker.errors import BadName, Overloaded

_NAME: Final = re.compile(r"(.+)-([0-9.]+)-([0-9a-f]{64})(\.other)?\.dtd")
#: Longest quoted name of an owner; a longer one is hashed.
_MOST_NAME: Final = 200


@attrs.frozen
class StoreLimits:
    """Bounds of what is kept on disk."""

    max_versions: int = 1000
    """Texts of one owner."""
    max_bytes: int = 16 * 1024 * 1024
    """Bytes of the texts of one owner."""
    max_owners: int = 256
    """Owners; all together take at most that many times `max_bytes`."""


@attrs.define(eq=False)
class StoredDtd:
    """A text on disk."""

    reference: DtdReference
    """Has a variant if another text counts as this type and version here."""
    content_hash: str
    owner: str
    size: int
    used_ms: int
    """When an event of the type came last, or the text itself."""


class DtdStore:
    """The texts in one folder. `save` and `remove_files` block for the disk; the rest does not."""

    _log = Logger()

    def __init__(self, folder: Path, limits: StoreLimits, *, sync: bool = True) -> None:
        """Reads the names of all files, and no text."""
        self._folder = folder
        self._limits = limits
        self._sync = sync
        self._texts: dict[DtdReference, StoredDtd] = {}
        self._garbage: list[Path] = []
        self.on_dropped: Callable[[DtdReference], object] = lambda _: None
        """Called with each text that goes to make room."""
        self.needed_since_ms = 0
        """Texts used before this time are needed by no event in the log."""
        self.damaged = 0
        """Files whose content did not have its hash."""
        self.failed = 0
        """Texts that could not be written."""
        self.refused = 0
        """Texts for which their owner had no room."""
        for path in sorted(folder.glob("*/*.dtd")):
            self._index(path)

    def __contains__(self, reference: DtdReference) -> bool:
        return reference in self._texts

    def __iter__(self) -> Iterator[StoredDtd]:
        return iter(list(self._texts.values()))

    def get(self, reference: DtdReference) -> StoredDtd | None:
        """The entry of a type and version; the text is not read."""
        return self._texts.get(reference)

    def read(self, reference: DtdReference) -> bytes | None:
        """The text, verified; None if it is not here or was damaged, and then is not here."""
        entry = self._texts.get(reference)
        if entry is None:
            return None
        path = self._path(entry)
        try:
            text = path.read_bytes()
        except OSError as error:
            text, reason = b"", str(error)
        else:
            if hashlib.sha256(text).hexdigest() == entry.content_hash:
                return text
            reason = "its content does not have its hash"
        self.damaged += 1
        self._log.warn("the DTD file {path} is removed: {reason}", path=str(path), reason=reason)
        self.forget(reference)
        return None

    def admit(
        self, reference: DtdReference, text: bytes, owner: str, now_ms: int
    ) -> StoredDtd | None:
        """Make room for a text and enter it; None if it is here already. `save` has to follow.

        Raises `Overloaded` if the owner has too much that events may need.
        """
        content_hash = hashlib.sha256(text).hexdigest()
        known = self._texts.get(reference)
        if known is not None and known.content_hash == content_hash:
            known.used_ms = max(known.used_ms, now_ms)
            return None
        self._make_room(owner, len(text))
        entry = StoredDtd(reference, content_hash, owner, len(text), now_ms)
        self._texts[reference] = entry
        return entry

    def save(self, entry: StoredDtd, text: bytes) -> bool:
        """Write a text durably. Whether that was possible; the disk may be full."""
        path = self._path(entry)
        try:
            write_whole(path, text, sync=self._sync)
            os.utime(path, (entry.used_ms / 1000, entry.used_ms / 1000))
        except OSError as error:
            self.failed += 1
            self._log.warn("the DTD {path} is not stored: {e}", path=str(path), e=error)
            return False
        return True

    def note_use(self, reference: DtdReference, now_ms: int) -> None:
        """An event of this type has come: keep the text for as long as the log keeps events."""
        entry = self._texts.get(reference)
        if entry is not None:
            entry.used_ms = now_ms
            with contextlib.suppress(OSError):
                os.utime(self._path(entry), (now_ms / 1000, now_ms / 1000))

    def forget(self, reference: DtdReference) -> None:
        """Remove a text."""
        entry = self._texts.pop(reference, None)
        if entry is not None:
            self._garbage.append(self._path(entry))
            self._remove_garbage()

    def used_by(self, owner: str) -> tuple[int, int]:
        """How many texts an owner has here, and their bytes."""
        sizes = [entry.size for entry in self._texts.values() if entry.owner == owner]
        return len(sizes), sum(sizes)

    # ---------------------------------------------------------------- inside

    def _make_room(self, owner: str, size: int) -> None:
        limits = self._limits
        owners = {entry.owner for entry in self._texts.values()}
        if owner not in owners and len(owners) >= limits.max_owners:
            self.refused += 1
            raise Overloaded(f"DTDs of {len(owners)} accounts and nodes are stored already")
        count, held = self.used_by(owner)
        own = (entry for entry in self._texts.values() if entry.owner == owner)
        old = sorted(own, key=lambda entry: entry.used_ms)
        while count + 1 > limits.max_versions or held + size > limits.max_bytes:
            if not old or old[0].used_ms >= self.needed_since_ms:
                self.refused += 1
                raise Overloaded(
                    f"{owner or 'this node'} has {count} DTDs of {held} bytes here: "
                    f"{limits.max_versions} of {limits.max_bytes} bytes are its share"
                )
            gone = old.pop(0)
            count, held = count - 1, held - gone.size
            self.forget(gone.reference)
            self.on_dropped(gone.reference)

    def _remove_garbage(self) -> None:
        garbage, self._garbage = self._garbage, []
        kept = {self._path(entry) for entry in self._texts.values()} if garbage else set()
        for path in garbage:
            if path not in kept:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, entry: StoredDtd) -> Path:
        reference = entry.reference
        ending = ".other.dtd" if reference.variant else ".dtd"
        name = f"{reference.type}-{reference.version}-{entry.content_hash}{ending}"
        return self._folder / _folder_of(entry.owner) / name

    def _index(self, path: Path) -> None:
        named = _NAME.fullmatch(path.name)
        if named is None:
            return
        type_name, version, content_hash, other = named.groups()
        variant = content_hash if other else ""
        try:
            reference = DtdReference(type_name, version, variant)
            found = path.stat()
        except (BadName, OSError):
            return
        used_ms = int(found.st_mtime * 1000)
        entry = StoredDtd(
            reference, content_hash, unquote(path.parent.name[1:]), found.st_size, used_ms
        )
        known = self._texts.get(reference)
        if known is None or known.used_ms < used_ms:
            self._texts[reference] = entry


def _folder_of(owner: str) -> str:
    quoted = quote(owner, safe="")
    if len(quoted) > _MOST_NAME:
        quoted = hashlib.sha256(owner.encode()).hexdigest()
    # Quoting leaves dots: a name must not be `..`.
    return f"_{quoted}"
