"""What a manifest says of a file of events, of the text of a DTD, and of an origin's own text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from broker.archive.interval import Interval
from broker.dtd.reference import DtdReference
from broker.event.place import Mark

#: A file's streams are named in its manifest if they are no more: else they would outweigh it.
MAX_STREAMS: Final = 64


@attrs.frozen
class ArchivedFile:
    """A file of events, which never changes."""

    path: str
    partition: str
    hour: str
    """Of the arrival of all its events, as `layout.hour_of` writes it."""
    rows: int
    bytes: int
    sha256: str
    """Of all its bytes, in hexadecimal digits."""
    spans: Mapping[str, tuple[Mark, Mark]]
    """By origin the first and the last mark. What lies between may be in other files."""
    arrivals: tuple[int, int]
    """Least and greatest, ms since 1970."""
    levels: tuple[int, ...]
    """Ranks of security levels that occur, rising."""
    streams: tuple[str, ...] | None
    """Sorted; None if they are more than `MAX_STREAMS`."""
    types: tuple[tuple[str, str], ...]
    """(type, version) of the DTDs of its events, sorted."""

    @property
    def intervals(self) -> dict[str, Interval]:
        """By origin the least interval that holds all its places."""
        return {
            origin: ((epoch, offset - 1), last)
            for origin, ((epoch, offset), last) in self.spans.items()
        }

    def to_json(self) -> dict[str, Any]:
        """What stands in a manifest."""
        return {
            **attrs.asdict(self, recurse=False),
            "spans": {origin: list(span) for origin, span in self.spans.items()},
        }

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> ArchivedFile:
        """The file that `to_json` described; KeyError, TypeError or ValueError if it is none."""
        spans = {
            str(origin): (_mark(first), _mark(last))
            for origin, (first, last) in content["spans"].items()
        }
        least, greatest = content["arrivals"]
        streams = content["streams"]
        return cls(
            *(str(content["path"]), str(content["partition"]), str(content["hour"])),
            *(int(content["rows"]), int(content["bytes"]), str(content["sha256"])),
            spans=spans,
            arrivals=(int(least), int(greatest)),
            levels=tuple(map(int, content["levels"])),
            streams=None if streams is None else tuple(map(str, streams)),
            types=tuple((str(kind), str(version)) for kind, version in content["types"]),
        )


@attrs.frozen(order=True)
class DtdText:
    """The text of a DTD with everything that it includes, as some node had it."""

    at: int
    """When it was archived, ms since 1970."""
    sha256: str
    bytes: int
    reference: DtdReference
    path: str

    def to_json(self) -> list[Any]:
        """What stands in a manifest."""
        kind, version = self.reference.type, self.reference.version
        return [kind, version, self.sha256, self.bytes, self.at, self.path]

    @classmethod
    def from_json(cls, content: Any) -> DtdText:
        """The text that `to_json` described."""
        kind, version, sha256, size, at, path = content
        return cls(
            int(at), str(sha256), int(size), DtdReference(str(kind), str(version)), str(path)
        )


@attrs.frozen(order=True)
class OriginDtdVariant:
    """An origin whose events use another text than the one that counts under the name (T26)."""

    origin: str
    text: DtdReference
    """With the content hash of the text as its variant."""

    def to_json(self) -> list[str]:
        """What stands in a manifest."""
        return [self.origin, self.text.type, self.text.version, self.text.variant]

    @classmethod
    def from_json(cls, content: Any) -> OriginDtdVariant:
        """The use that `to_json` described."""
        origin, kind, version, sha256 = map(str, content)
        return cls(origin, DtdReference(kind, version, sha256))


def _mark(content: Any) -> Mark:
    epoch, offset = content
    return int(epoch), int(offset)
