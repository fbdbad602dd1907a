"""Places in a node's log and positions of a client (DESIGN 1)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

#: (epoch, offset): what orders the events of one origin.
Mark: TypeAlias = tuple[int, int]
#: (epoch, id, branch place): a history of an origin as nodes name it (`broker.log.histories`).
NamedHistory: TypeAlias = tuple[int, int, Mark]


@attrs.frozen(slots=True)
class Place:
    """Where the origin put an event: offsets are gapless per origin and go on through epochs.

    An epoch begins with each start, since the log may be an older copy, and after a failed commit
    (`broker.log.histories`). Within one origin (epoch, offset) rises from event to event.
    """

    origin: str
    epoch: int
    offset: int

    @property
    def mark(self) -> Mark:
        """(epoch, offset), comparable within one origin."""
        return (self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.origin}:{self.epoch}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """The place that `str(place)` wrote; ValueError otherwise."""
        origin, epoch, offset = text.rsplit(":", 2)
        return cls(origin, int(epoch), int(offset))


@attrs.frozen
class Position:
    """How far a client has got in a stream: per origin the last mark it *processed*.

    Processed means matched and delivered, or seen not to match: so the position of a rare query
    moves too. Immutable; `advanced` gives a new one.
    """

    marks: Mapping[str, Mark] = attrs.field(factory=dict)

    def after(self, place: Place) -> bool:
        """Whether the event at `place` lies behind this position (was processed)."""
        mark = self.marks.get(place.origin)
        return mark is not None and place.mark <= mark

    def advanced(self, places: Iterable[Place]) -> Position:
        """This position moved on to cover `places`; it never moves back."""
        marks = dict(self.marks)
        for place in places:
            if marks.get(place.origin, (0, 0)) < place.mark:
                marks[place.origin] = place.mark
        return Position(marks)

    def merged(self, other: Position) -> Position:
        """The further of both, origin by origin."""
        marks = dict(self.marks)
        for origin, mark in other.marks.items():
            marks[origin] = max(marks.get(origin, (0, 0)), mark)
        return Position(marks)

    def to_wire(self) -> tuple[tuple[str, int, int], ...]:
        """Return (origin, epoch, offset) of each origin, by origin."""
        return tuple(
            [(origin, epoch, offset) for origin, (epoch, offset) in sorted(self.marks.items())]
        )

    @classmethod
    def from_wire(cls, rows: Iterable[tuple[str, int, int]]) -> Position:
        """The position that `to_wire` described; ValueError or TypeError if it is none."""
        return cls({str(origin): (int(epoch), int(offset)) for origin, epoch, offset in rows})

    def __str__(self) -> str:
        return ",".join(f"{o}:{e}:{n}" for o, e, n in self.to_wire()) or "start"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that `str(position)` wrote; ValueError otherwise."""
        if text == "start":
            return cls()
        return cls().advanced(Place.parse(part) for part in text.split(","))


def further(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> dict[str, Mark]:
    """By origin the further mark of both."""
    return {o: max(one.get(o, (0, 0)), other.get(o, (0, 0))) for o in {*one, *other}}


def furthest(*positions: Position | None) -> Position | None:
    """The furthest of those that there are, origin by origin."""
    known = [position for position in positions if position is not None]
    return functools.reduce(Position.merged, known) if known else None


def nearest(one: Position, other: Position) -> Position:
    """What lies behind both positions."""
    both = one.marks.keys() & other.marks.keys()
    return Position({origin: min(one.marks[origin], other.marks[origin]) for origin in both})
