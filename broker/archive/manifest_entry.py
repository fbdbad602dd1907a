"""Entries of a manifest: files of events, DTD texts, and DTD variants of origins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from broker.archive.interval import Interval
from broker.archive.layout import DTDS, EVENTS, check_object_path
from broker.dtd.reference import DtdReference
from broker.event.place import Mark

#: Above this number a manifest names no streams of a file, to stay small.
MAX_STREAMS: Final = 64


@attrs.frozen
class ArchivedFile:
    """An immutable file of events."""

    path: str
    partition: str
    hour: str
    """Hour of arrival of all its events, as from `layout.hour_of`."""
    rows: int
    bytes: int
    sha256: str
    """Hash of the whole file, in hexadecimal digits."""
    spans: Mapping[str, tuple[Mark, Mark]]
    """First and last mark, by origin. Other files may hold places in between."""
    arrivals: tuple[int, int]
    """Least and greatest, ms since 1970."""
    levels: tuple[int, ...]
    """Ranks of the security levels that occur, ascending."""
    streams: tuple[str, ...] | None
    """Sorted; None if there are more than `MAX_STREAMS`."""
    types: tuple[tuple[str, str], ...]
    """(type, version) of the DTDs of its events, sorted."""

    @property
    def intervals(self) -> dict[str, Interval]:
        """The smallest interval with all places, by origin."""
        return {
            origin: ((epoch, offset - 1), last)
            for origin, ((epoch, offset), last) in self.spans.items()
        }

    def to_json(self) -> dict[str, Any]:
        return {
            **attrs.asdict(self, recurse=False),
            "spans": {origin: list(span) for origin, span in self.spans.items()},
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ArchivedFile:
        """Raises KeyError, TypeError, ValueError or `ArchiveCorrupt`."""
        spans = {
            str(origin): (_mark(first), _mark(last))
            for origin, (first, last) in content["spans"].items()
        }
        least, greatest = content["arrivals"]
        streams = content["streams"]
        path, partition, hour = (str(content[key]) for key in ("path", "partition", "hour"))
        # They become folders of the file into which this one is merged.
        check_object_path(f"{EVENTS}/{partition}/{hour}")
        return cls(
            *(check_object_path(path, EVENTS), partition, hour),
            *(int(content["rows"]), int(content["bytes"]), str(content["sha256"])),
            spans=spans,
            arrivals=(int(least), int(greatest)),
            levels=tuple(map(int, content["levels"])),
            streams=None if streams is None else tuple(map(str, streams)),
            types=tuple((str(kind), str(version)) for kind, version in content["types"]),
        )


@attrs.frozen(order=True)
class DtdText:
    """A DTD text with all that it includes."""

    at: int
    """Time of archiving, ms since 1970."""
    sha256: str
    bytes: int
    reference: DtdReference
    path: str

    def to_json(self) -> list[Any]:
        kind, version = self.reference.type, self.reference.version
        return [kind, version, self.sha256, self.bytes, self.at, self.path]

    @classmethod
    def from_json(cls, content: Any) -> DtdText:
        kind, version, sha256, size, at, path = content
        reference = DtdReference(str(kind), str(version))
        stored_at = check_object_path(str(path), DTDS)
        return cls(int(at), str(sha256), int(size), reference, stored_at)


@attrs.frozen(order=True)
class OriginDtdVariant:
    """A DTD text that replaces the default for one origin's events (T26)."""

    origin: str
    text: DtdReference
    """Its variant is the content hash of the text."""

    def to_json(self) -> list[str]:
        return [self.origin, self.text.type, self.text.version, self.text.variant]

    @classmethod
    def from_json(cls, content: Any) -> OriginDtdVariant:
        origin, kind, version, sha256 = map(str, content)
        return cls(origin, DtdReference(kind, version, sha256))


def _mark(content: Any) -> Mark:
    epoch, offset = content
    return int(epoch), int(offset)
