"""Places in a node's log, and positions of a client (DESIGN 1)."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import attrs

#: (epoch, offset) orders the events of one origin.
Mark: TypeAlias = tuple[int, int]
#: (epoch, id, branch place): wire form of a history (`broker.log.history`).
NamedHistory: TypeAlias = tuple[int, int, Mark]


@attrs.frozen(slots=True)
class Place:
    """Place of an event in its origin's log.

    Offsets have no gaps and continue through epochs. An epoch begins with each start, since the log
    may be an older copy, and after a failed commit. (epoch, offset) rises.
    """

    origin: str
    epoch: int
    offset: int

    @property
    def mark(self) -> Mark:
        return (self.epoch, self.offset)

    def __str__(self) -> str:
        return f"{self.origin}:{self.epoch}:{self.offset}"

    @classmethod
    def parse(cls, text: str) -> Place:
        """Raises ValueError."""
        origin, epoch, offset = text.rsplit(":", 2)
        return cls(origin, int(epoch), int(offset))


@attrs.frozen
class Position:
    """Progress of a client in a stream: per origin the last *processed* mark.

    An event is processed if it was delivered or did not match, so the position of a rare query
    moves too.
    """

    marks: Mapping[str, Mark] = attrs.field(factory=dict)

    def covers(self, place: Place) -> bool:
        mark = self.marks.get(place.origin)
        return mark is not None and place.mark <= mark

    def advanced(self, places: Iterable[Place]) -> Position:
        """Return a position that also covers `places`; it never moves back."""
        marks = dict(self.marks)
        for place in places:
            if marks.get(place.origin, (0, 0)) < place.mark:
                marks[place.origin] = place.mark
        return Position(marks)

    def merged(self, other: Position) -> Position:
        marks = dict(self.marks)
        for origin, mark in other.marks.items():
            marks[origin] = max(marks.get(origin, (0, 0)), mark)
        return Position(marks)

    def to_wire(self) -> tuple[tuple[str, int, int], ...]:
        return tuple([(origin, *mark) for origin, mark in sorted(self.marks.items())])

    @classmethod
    def from_wire(cls, rows: Iterable[tuple[str, int, int]]) -> Position:
        """Raises ValueError or TypeError."""
        return cls({str(origin): (int(epoch), int(offset)) for origin, epoch, offset in rows})

    def __str__(self) -> str:
        return ",".join(f"{o}:{e}:{n}" for o, e, n in self.to_wire()) or "start"

    @classmethod
    def parse(cls, text: str) -> Position:
        """Raises ValueError."""
        if text == "start":
            return cls()
        return cls().advanced(Place.parse(part) for part in text.split(","))


def merge_marks(one: Mapping[str, Mark], other: Mapping[str, Mark]) -> dict[str, Mark]:
    return {o: max(one.get(o, (0, 0)), other.get(o, (0, 0))) for o in {*one, *other}}


def merge_positions(*positions: Position | None) -> Position | None:
    """Return None without any position."""
    known = [position for position in positions if position is not None]
    return functools.reduce(Position.merged, known) if known else None


def common_position(one: Position, other: Position) -> Position:
    """Return the position that both cover."""
    both = one.marks.keys() & other.marks.keys()
    return Position({origin: min(one.marks[origin], other.marks[origin]) for origin in both})
