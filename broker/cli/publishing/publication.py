"""Publications and refusals of `xmlbroker pub`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from broker.event.envelope import EventLinkage, EventType


@attrs.frozen
class SourceLocation:
    source: str
    """A file, or `archive: member`, or `stdin`."""
    line: int
    """Its first line, from 1; 0: the whole source."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}" if self.line else self.source

    def plus_lines(self, lines: int) -> SourceLocation:
        return SourceLocation(self.source, self.line + lines)


@attrs.frozen
class RawDocument:
    location: SourceLocation
    data: bytes = attrs.field(repr=False)
    problem: str = ""
    """Reason why it can not be published, or empty."""
    fields: Mapping[str, Any] = attrs.field(factory=dict)
    """Values for the envelope, by their names in lines of JSON."""


@attrs.frozen
class Refusal:
    location: SourceLocation
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}"


@attrs.frozen
class Publication:
    location: SourceLocation
    """Location of the payload's first line."""
    stream: str
    event_type: EventType
    payload: bytes | None = attrs.field(repr=False)
    linkage: EventLinkage = EventLinkage()
    application_types: tuple[str, ...] = ()
    summary: str | None = None
    time: float | None = None
    """The event's own time, seconds since 1970; None if it has none."""
    event_time: int | None = None
    """Its time for the header, ms since 1970; None if it has none there."""
    key: bytes | None = None
    """Key of the event in the table of published keys; None without `--id`."""
    is_unchanged: bool = True
    """True if the payload's bytes are those of the source, so that line numbers apply."""


@attrs.frozen
class PortionEnd:
    """End of the items of one file, or of one fetch."""

    key: bytes | None
    """Entry of the table of published keys, once all items are published; None: none."""
    value: bytes = b""
