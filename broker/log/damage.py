"""Events or chunks of the log that fail their checksum."""

from __future__ import annotations

import enum

import attrs

from broker.errors import OurError
from broker.event.place import Mark


class LogDamaged(OurError):
    code = "log-damaged"


class DamageKind(enum.Enum):
    EVENT = "event"
    """Records or documents; head and places are intact."""
    HEAD = "head"
    """The head or a column: no event of the chunk can be read."""
    MISSING = "missing"
    """The chunk is missing, though the table of origins names it."""


@attrs.frozen
class Span:
    """Places of one origin in (after, upto]."""

    origin: str
    after: Mark
    upto: Mark


@attrs.frozen
class Damage:
    """Neighbouring damaged events of a chunk."""

    table: str
    """`events`, or `kept` for replicas."""
    key: bytes
    """Key of the chunk."""
    first: int
    last: int
    """Serials; indices in the chunk for replicas."""
    kind: DamageKind
    spans: tuple[Span, ...]
    """The range of places: one, or several candidates if the origin is unknown."""
    marks: tuple[Mark, ...] = attrs.field(default=(), repr=False)
    """The exact places, if they are known. If the head is damaged, epochs are those of the span."""

    @property
    def origin(self) -> str:
        return self.spans[0].origin if len(self.spans) == 1 else ""

    @property
    def upto(self) -> Mark:
        """Last place; (0, 0) if the origin is unknown."""
        return self.spans[0].upto if len(self.spans) == 1 else (0, 0)

    def covers(self, other: Damage) -> bool:
        same = (self.table, self.key) == (other.table, other.key)
        return same and self.first <= other.first and other.last <= self.last

    def __str__(self) -> str:
        where = ", ".join(
            f"{each.origin} {each.after[0]}:{each.after[1] + 1} to {each.upto[0]}:{each.upto[1]}"
            for each in self.spans
        )
        return f"{self.kind.value} damage in {self.table}, {where or 'origin unknown'}"


class DamageFound(LogDamaged):
    """A reader found damage before any intact event."""

    def __init__(self, damage: Damage) -> None:
        super().__init__(f"the event log is damaged: {damage}")
        self.damage = damage
