"""What is about to be published, and what can not be."""

from __future__ import annotations

import attrs

from broker.event.envelope import EventLinkage, EventType


@attrs.frozen
class SourceLocation:
    """Where a document stands: for people."""

    source: str
    """A file, or `archive: member`, or `stdin`."""
    line: int
    """Its first line, from 1."""

    def __str__(self) -> str:
        return f"{self.source}:{self.line}"

    def plus_lines(self, lines: int) -> SourceLocation:
        """So many lines below."""
        return SourceLocation(self.source, self.line + lines)


@attrs.frozen
class RawDocument:
    """One document as it was found, still to be looked at; or why it is none."""

    location: SourceLocation
    data: bytes = attrs.field(repr=False)
    problem: str = ""
    """Not empty: it can not be published, for this reason."""


@attrs.frozen
class Refusal:
    """A document that can not be published."""

    location: SourceLocation
    reason: str

    def __str__(self) -> str:
        return f"{self.location}: {self.reason}"


@attrs.frozen
class Publication:
    """A document that can."""

    location: SourceLocation
    """Of the payload's first line."""
    stream: str
    event_type: EventType
    payload: bytes | None = attrs.field(repr=False)
    linkage: EventLinkage = EventLinkage()
    application_types: tuple[str, ...] = ()
    summary: str | None = None
    time: float | None = None
    """What the event says of its time, seconds since 1970; None if it says nothing."""
    is_unchanged: bool = True
    """Whether the payload's bytes are those of the source, so that lines can be told."""
