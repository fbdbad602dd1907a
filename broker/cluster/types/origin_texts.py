"""Texts that single origins use under a name that stands for another text at this node (T26).

Kept on disk: events of such an origin are judged by its text after a restart, too, when nobody
announces it any more.
"""

from __future__ import annotations

import contextlib
import json
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from twisted.logger import Logger

from broker.content.contract import NO_VARIANTS, Variants
from broker.dtd.reference import DtdReference
from broker.dtd.whole_file import write_whole
from broker.errors import BadName

#: Origins that are kept, and texts of each; the origin noted longest ago goes first.
MAX_ORIGINS: Final = 1024
MAX_TEXTS: Final = 256


class OriginTexts:
    """One file with the content hashes by origin and type."""

    _log = Logger()

    def __init__(self, path: Path, write: Callable[..., Any], *, sync: bool) -> None:
        """`write` runs calls on one thread, in order."""
        self._path = path
        self._write = write
        self._sync = sync
        self._origins: OrderedDict[str, dict[DtdReference, DtdReference]] = OrderedDict()
        with contextlib.suppress(FileNotFoundError):
            self._load(path.read_bytes())

    def __bool__(self) -> bool:
        return bool(self._origins)

    def snapshot(self) -> dict[str, list[str]]:
        """By origin its texts, for people."""
        return {origin: sorted(map(str, texts.values())) for origin, texts in self._origins.items()}

    def of(self, origin: str) -> Variants:
        """The variants of an origin; nothing for nearly all."""
        return self._origins.get(origin, NO_VARIANTS)

    def note(self, origin: str, reference: DtdReference, content_hash: str) -> None:
        """From now on events of this origin and type are judged by the text with this hash."""
        variant = DtdReference(reference.type, reference.version, content_hash)
        texts = self._origins.setdefault(origin, {})
        if texts.get(reference) == variant or len(texts) >= MAX_TEXTS:
            return
        texts[reference] = variant
        self._origins.move_to_end(origin)
        if len(self._origins) > MAX_ORIGINS:
            self._origins.popitem(last=False)
        said = {
            origin: {f"{each.type} {each.version}": text.variant for each, text in texts.items()}
            for origin, texts in self._origins.items()
        }
        self._write(self._save, json.dumps(said).encode())

    def _load(self, data: bytes) -> None:
        try:
            for origin, texts in json.loads(data).items():
                for name, content_hash in texts.items():
                    kind, _, version = name.partition(" ")
                    reference = DtdReference(kind, version)
                    variant = DtdReference(kind, version, content_hash)
                    self._origins.setdefault(origin, {})[reference] = variant
        except (ValueError, TypeError, AttributeError, BadName) as error:
            self._log.error("{path} can not be read: {error}", path=str(self._path), error=error)

    def _save(self, data: bytes) -> None:
        try:
            write_whole(self._path, data, sync=self._sync)
        except OSError as error:
            self._log.error("{path} is not written: {error}", path=str(self._path), error=error)
