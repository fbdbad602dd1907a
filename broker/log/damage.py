"""Damage in the log: events or whole chunks that fail their checksum."""

from __future__ import annotations

import enum

import attrs

from broker.errors import OurError
from broker.event.place import Mark


class LogDamaged(OurError):
    """Bytes of the event log fail their checksum. Says which events these are."""

    code = "log-damaged"


class DamageKind(enum.Enum):
    """The damaged part of a chunk."""

    EVENT = "event"
    """Records or documents; head and places are intact."""
    HEAD = "head"
    """The head or a column: no event of the chunk can be read."""
    MISSING = "missing"
    """The chunk is not there, though the table of origins names it."""


@attrs.frozen
class Span:
    """A range of places of one origin, behind `after` and up to `upto`."""

    origin: str
    after: Mark
    upto: Mark


@attrs.frozen
class Damage:
    """Damaged neighbours of one chunk."""

    table: str
    """`events`, or `kept` for replicas."""
    key: bytes
    """Of the chunk."""
    first: int
    last: int
    """Serials; numbers within the chunk for replicas."""
    kind: DamageKind
    spans: tuple[Span, ...]
    """The places, as a range: one, or several candidates where the origin is unknown."""
    marks: tuple[Mark, ...] = attrs.field(default=(), repr=False)
    """The exact places, where they are known. Epochs are those of the span where the head is
    damaged."""

    @property
    def origin(self) -> str:
        """The origin of the events; empty where it is unknown."""
        return self.spans[0].origin if len(self.spans) == 1 else ""

    @property
    def upto(self) -> Mark:
        """The last place, where the origin is known."""
        return self.spans[0].upto if len(self.spans) == 1 else (0, 0)

    def covers(self, other: Damage) -> bool:
        """Whether the other is part of this one."""
        same = (self.table, self.key) == (other.table, other.key)
        return same and self.first <= other.first and other.last <= self.last

    def __str__(self) -> str:
        where = ", ".join(
            f"{each.origin} {each.after[0]}:{each.after[1] + 1} to {each.upto[0]}:{each.upto[1]}"
            for each in self.spans
        )
        return f"{self.kind.value} damage in {self.table}, {where or 'origin unknown'}"


class DamageFound(LogDamaged):
    """A reader met damage before any intact event."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"the event log is damaged: {damage}")
        self.damage = damage
