"""DTD texts on disk, one file each, named by type, version and content hash (M13, M17).

Each owner (an account, or another node) has a folder. The file names are the only index. A damaged
file is removed, and its text fetched again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

import attrs
from twisted.logger import Logger

from broker.dtd.atomic_file import write_atomically
from broker.dtd.reference import DtdReference
from broker.errors import BadName, Overloaded
from broker.limit_registry import LimitRegistry

_NAME: Final = re.compile(r"(.+)-([0-9.]+)-([0-9a-f]{64})(\.other)?\.dtd")
#: A longer name of an owner is hashed.
_MAX_FOLDER_NAME: Final = 200


@attrs.frozen
class StoreLimits:
    max_versions: int = 1000
    max_bytes: int = 16 * 1024 * 1024
    """Bytes of the texts of one owner."""
    max_owners: int = 256
    """Owners; together they use at most that many times `max_bytes`."""


@attrs.define(eq=False)
class StoredDtd:
    reference: DtdReference
    """Has a variant if another text is the main one of this type and version."""
    content_hash: str
    owner: str
    size: int
    used_ms: int
    """Time of the type's newest event, or of the text itself."""


class DtdStore:
    """`save` and `read` block for the disk."""

    _log = Logger()

    def __init__(
        self,
        folder: Path,
        limits: StoreLimits,
        *,
        sync: bool = True,
        limit_registry: LimitRegistry | None = None,
    ) -> None:
        """Reads all file names, but no text."""
        self._folder = folder
        self.limits = limits
        registry = limit_registry or LimitRegistry()
        self._version_limit = registry.add(
            "stored-dtds",
            per="account",
            setting="types.max_versions",
            bound=lambda: self.limits.max_versions,
            used=lambda: max(self._usage()[0].values(), default=0),
        )
        self._byte_limit = registry.add(
            "stored-dtd-bytes",
            per="account",
            setting="types.max_bytes",
            bound=lambda: self.limits.max_bytes,
            used=lambda: max(self._usage()[1].values(), default=0),
        )
        self._owner_limit = registry.add(
            "stored-dtd-owners",
            bound=lambda: self.limits.max_owners,
            used=lambda: len(self._usage()[0]),
        )
        self._sync = sync
        self._texts: dict[DtdReference, StoredDtd] = {}
        self._garbage: list[Path] = []
        self.on_dropped: Callable[[DtdReference], object] = lambda _: None
        """Called with each text that is removed to make room."""
        self.needed_since_ms = 0
        """Texts last used before this time are not needed by any event in the log."""
        self.damaged = 0
        """Files whose content did not match the hash."""
        self.failed = 0
        """Texts that could not be written."""
        self.refused = 0
        """Texts without room in their owner's share."""
        for path in sorted(folder.glob("*/*.dtd")):
            self._index(path)

    def __contains__(self, reference: DtdReference) -> bool:
        return reference in self._texts

    def __iter__(self) -> Iterator[StoredDtd]:
        return iter(list(self._texts.values()))

    def get(self, reference: DtdReference) -> StoredDtd | None:
        return self._texts.get(reference)

    def read(self, reference: DtdReference) -> bytes | None:
        """Return the verified text or None. A damaged text is removed."""
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
            reason = "its content does not match its hash"
        self.damaged += 1
        self._log.warn("removed the DTD file {path}: {reason}", path=str(path), reason=reason)
        self.remove(reference)
        return None

    def add_entry(
        self, reference: DtdReference, text: bytes, owner: str, now_ms: int
    ) -> StoredDtd | None:
        """Make room for a text and add its entry; `save` must follow.

        Returns None for a stored text. Raises `Overloaded` if the owner's share is full of texts
        that events may need.
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
        """Return False if the disk fails or is full."""
        path = self._path(entry)
        try:
            write_atomically(path, text, sync=self._sync)
            os.utime(path, (entry.used_ms / 1000, entry.used_ms / 1000))
        except OSError as error:
            self.failed += 1
            self._log.warn("could not store the DTD {path}: {e}", path=str(path), e=error)
            return False
        return True

    def record_use(self, reference: DtdReference, now_ms: int) -> None:
        """Keep the text as long as the log keeps the event."""
        entry = self._texts.get(reference)
        if entry is not None:
            entry.used_ms = now_ms
            with contextlib.suppress(OSError):
                os.utime(self._path(entry), (now_ms / 1000, now_ms / 1000))

    def remove(self, reference: DtdReference) -> None:
        entry = self._texts.pop(reference, None)
        if entry is not None:
            self._garbage.append(self._path(entry))
            self._remove_garbage()

    def usage_of(self, owner: str) -> tuple[int, int]:
        """Return number and bytes."""
        sizes = [entry.size for entry in self._texts.values() if entry.owner == owner]
        return len(sizes), sum(sizes)

    def _usage(self) -> tuple[Counter[str], Counter[str]]:
        """Return number and bytes of the texts by owner."""
        numbers: Counter[str] = Counter()
        sizes: Counter[str] = Counter()
        for entry in self._texts.values():
            numbers[entry.owner] += 1
            sizes[entry.owner] += entry.size
        return numbers, sizes

    def _make_room(self, owner: str, size: int) -> None:
        limits = self.limits
        owners = {entry.owner for entry in self._texts.values()}
        if owner not in owners and len(owners) >= limits.max_owners:
            self.refused += 1
            self._owner_limit.count_reached()
            raise Overloaded(f"the store already has DTDs of {len(owners)} accounts and nodes")
        count, held = self.usage_of(owner)
        own = (entry for entry in self._texts.values() if entry.owner == owner)
        old = sorted(own, key=lambda entry: entry.used_ms)
        while count + 1 > limits.max_versions or held + size > limits.max_bytes:
            is_full = count + 1 > limits.max_versions
            (self._version_limit if is_full else self._byte_limit).count_reached()
            if not old or old[0].used_ms >= self.needed_since_ms:
                self.refused += 1
                raise Overloaded(
                    f"{owner or 'this node'} has {count} stored DTDs of {held} bytes: its "
                    f"share is {limits.max_versions} of {limits.max_bytes} bytes"
                )
            removed = old.pop(0)
            count, held = count - 1, held - removed.size
            self.remove(removed.reference)
            self.on_dropped(removed.reference)

    def _remove_garbage(self) -> None:
        garbage, self._garbage = self._garbage, []
        current = {self._path(entry) for entry in self._texts.values()} if garbage else set()
        for path in garbage:
            if path not in current:
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
    if len(quoted) > _MAX_FOLDER_NAME:
        quoted = hashlib.sha256(owner.encode()).hexdigest()
    # Quoting leaves dots: a name must not be `..`.
    return f"_{quoted}"
