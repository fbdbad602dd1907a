"""DTD texts that single origins use, where a name has several texts (T26)."""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
from twisted.logger import Logger

from broker.dtd.atomic_file import read_checksummed, write_checksummed
from broker.dtd.reference import DtdReference
from broker.errors import BadName
from broker.matching.contract import NO_VARIANTS, Variants

#: The least recently changed origin is dropped first.
MAX_ORIGINS: Final = 1024
MAX_TEXTS: Final = 256


@attrs.define
class _Texts:
    """Texts that this node uses, and variants."""

    counting: dict[DtdReference, DtdReference] = attrs.field(factory=dict)
    variants: dict[DtdReference, DtdReference] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.counting) + len(self.variants)

    def record_text(self, reference: DtdReference, text: DtdReference, *, counts: bool) -> None:
        here, other = (self.counting, self.variants) if counts else (self.variants, self.counting)
        other.pop(reference, None)
        here[reference] = text


class OriginTexts:
    """DTD texts that single origins use, where a name has several texts (T26).

    After a restart the origin's events are validated by its text, also if no node announces it any
    more.
    """

    _log = Logger()

    def __init__(self, path: Path, write: Callable[..., Any], *, sync: bool) -> None:
        """`write` runs calls on one thread, in order."""
        self._path = path
        self._write = write
        self._sync = sync
        self._origins: OrderedDict[str, _Texts] = OrderedDict()
        self._load()

    def __bool__(self) -> bool:
        return bool(self._origins)

    def snapshot(self) -> dict[str, list[str]]:
        return {
            origin: sorted(map(str, texts.variants.values()))
            for origin, texts in self._origins.items()
            if texts.variants
        }

    def variants_of(self, origin: str) -> Variants:
        texts = self._origins.get(origin)
        return NO_VARIANTS if texts is None else texts.variants or NO_VARIANTS

    def origins_by_text(self) -> dict[DtdReference, list[str]]:
        found: dict[DtdReference, list[str]] = {}
        for origin, texts in self._origins.items():
            for text in (*texts.counting.values(), *texts.variants.values()):
                found.setdefault(text, []).append(origin)
        return found

    def record_text(self, origin: str, text: DtdReference, *, counts: bool) -> bool:
        """Record a text: it `counts` here, or is a variant. Return True if that is new."""
        reference = DtdReference(text.type, text.version)
        texts = self._origins.setdefault(origin, _Texts())
        known = texts.counting if counts else texts.variants
        if known.get(reference) == text or len(texts) >= MAX_TEXTS:
            return False
        texts.record_text(reference, text, counts=counts)
        self._origins.move_to_end(origin)
        if len(self._origins) > MAX_ORIGINS:
            self._origins.popitem(last=False)
        self._write(self._save, json.dumps(self._to_plain()).encode())
        return True

    def _to_plain(self) -> dict[str, Any]:
        return {
            origin: [
                [text.type, text.version, text.variant, counts]
                for own, counts in ((texts.counting, True), (texts.variants, False))
                for text in own.values()
            ]
            for origin, texts in self._origins.items()
        }

    def _load(self) -> None:
        """Load the file. Nodes announce the content of a damaged one again."""
        try:
            for origin, kind, version, content_hash, counts in self._rows():
                text = DtdReference(kind, version, content_hash)
                known = self._origins.setdefault(origin, _Texts())
                known.record_text(DtdReference(kind, version), text, counts=bool(counts))
        except (OSError, ValueError, TypeError, AttributeError, BadName) as error:
            self._log.error("{path} can not be read: {error}", path=str(self._path), error=error)

    def _rows(self) -> Iterator[tuple[str, str, str, str, bool]]:
        """Yield origin, type, version, hash, and True if the text counts here.

        The previous version wrote only variants, and no checksum.
        """
        with contextlib.suppress(FileNotFoundError):
            if (data := self._path.read_bytes()).startswith(b"{"):
                for origin, texts in json.loads(data).items():
                    for name, content_hash in texts.items():
                        kind, _, version = name.partition(" ")
                        yield origin, kind, version, content_hash, False
                return
        for origin, rows in json.loads(read_checksummed(self._path) or b"{}").items():
            for kind, version, content_hash, counts in rows:
                yield origin, kind, version, content_hash, counts

    def _save(self, data: bytes) -> None:
        try:
            write_checksummed(self._path, data, sync=self._sync)
        except OSError as error:
            self._log.error("{path} can not be written: {error}", path=str(self._path), error=error)
