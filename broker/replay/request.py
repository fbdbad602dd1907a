"""What is asked of a replay: one class for everything that is recovered (checklist Q3).

It travels as a list that msgpack carries, with the fields in the order of the class. What does not
fit is a typed error that says which field is wrong, before anything is read from the archive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import attrs

from broker.errors import BadPosition, ProtocolError
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.limits import QueryLimits
from broker.matching.query.query import Query, parse_query
from broker.wire import fields

#: (after, upto]: behind the first mark up to the second; None: as far as the archive has it.
Range: TypeAlias = tuple[Mark, Mark | None]

#: By what events are ordered, beyond each origin's and each publisher's order, which always hold.
PUBLISHER: Final = "publisher"
"""Those two alone; within them by arrival."""
PLACE: Final = "place"
"""By the order that the protocol stack gave, where it gave one (AN, global order place)."""
BUNDLE: Final = "bundle"
"""By the bundles and constraints of EventLinkage, see `broker.event.merging`."""
ORDERS: Final = (PUBLISHER, PLACE, BUNDLE)

#: Before all events of an origin.
ORIGIN_START: Final[Mark] = (0, 0)
#: Origins in one request: as many as a node keeps apart.
MAX_ORIGINS: Final = 16_384
#: Ranks of the three security levels of events.
_RANKS: Final = range(3)
_ORIGIN = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)


@attrs.frozen
class ReplayRequest:
    """Events of the archive that somebody wants. Equal ones are the same work.

    Pace and rate are the sender's to keep, so they are not here. Made here it is not checked:
    `checked` does that, and what `from_wire` gives has been checked.
    """

    pattern: str
    """Of streams."""
    query: str
    """XPath 1.0; an event is wanted when it is true. `$Liveness` in it is 'recovery'."""
    namespaces: Mapping[str, str] = attrs.field(factory=dict)
    """Prefixes that the query uses."""
    clearance: int = max(_RANKS)
    """Rank, 0 to 2: events of higher levels are left out, and counted."""
    ranges: Mapping[str, Range] = attrs.field(factory=dict)
    """What is wanted of each origin that is named."""
    others: bool = True
    """Whether origins that `ranges` does not name are wanted, wholly."""
    from_ms: int = 0
    until_ms: int = 0
    """Arrival times at the origin, [from, until), ms since 1970; 0: no bound."""
    last: int = 0
    """Only the last n events that match, in the order of the result; 0: all."""
    order: str = PUBLISHER
    """One of `ORDERS`."""
    known: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin whose range has no end: a place that it has given. What the archive lacks up to
    there is a hole, though the origin was set back and has logged anew behind it."""

    def stream_pattern(self) -> StreamPattern:
        """The pattern, read; raises `BadName`."""
        return StreamPattern.parse(self.pattern)

    def parsed_query(self, limits: QueryLimits = QueryLimits()) -> Query:
        """The query, read; raises `BadQuery`."""
        return parse_query(self.query, self.namespaces, limits)

    def range_of(self, origin: str) -> Range | None:
        """What is wanted of an origin; None: nothing."""
        wanted = self.ranges.get(origin)
        if wanted is None and self.others:
            return (ORIGIN_START, None)
        return wanted

    def validate(self, limits: QueryLimits = QueryLimits()) -> ReplayRequest:
        """The request itself.

        Raises `BadName` for the pattern, `BadQuery` for the query and its prefixes, `BadPosition`
        for marks, origins and times that can not be, `ProtocolError` for all else.
        """
        self.stream_pattern()
        self.parsed_query(limits)
        if self.clearance not in _RANKS:
            raise ProtocolError(f"clearance {self.clearance} is not a rank from 0 to 2")
        if self.order not in ORDERS:
            raise ProtocolError(f"order {self.order[:40]!r} is none of {', '.join(ORDERS)}")
        if len(self.ranges) > MAX_ORIGINS:
            raise BadPosition(f"the request names {len(self.ranges)} origins, over {MAX_ORIGINS}")
        for origin, (after, upto) in self.ranges.items():
            _check_range(origin, after, upto)
        if not self.known.keys() <= self.ranges.keys():
            raise BadPosition("a known place is of an origin that the request does not name")
        if self.until_ms and self.from_ms > self.until_ms:
            raise BadPosition(f"the time {self.until_ms} is before {self.from_ms}")
        return self

    def to_wire(self) -> list[Any]:
        """A list that msgpack carries."""
        return [
            self.pattern,
            self.query,
            dict(self.namespaces),
            self.clearance,
            [[origin, after, upto] for origin, (after, upto) in sorted(self.ranges.items())],
            self.others,
            self.from_ms,
            self.until_ms,
            self.last,
            self.order,
            [[origin, mark] for origin, mark in sorted(self.known.items())],
        ]

    @classmethod
    def from_wire(cls, value: Any, limits: QueryLimits = QueryLimits()) -> ReplayRequest:
        """The request that `to_wire` wrote, checked; raises as `checked` does."""
        try:
            pattern, query, namespaces, clearance, ranges, others, *numbers, order, known = value
            from_ms, until_ms, last = numbers
            read = cls(
                fields.text(pattern),
                fields.text(query),
                fields.texts(namespaces),
                fields.count(clearance),
                {fields.text(origin): (after, upto) for origin, after, upto in ranges},
                fields.flag(others),
                _number(from_ms),
                _number(until_ms),
                _number(last),
                fields.text(order),
                {fields.text(origin): fields.mark(mark) for origin, mark in known},
            )
            if len(read.ranges) != len(ranges) or len(read.known) != len(known):
                raise ValueError("an origin is named twice")
        except (TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"this is no replay request: {error}") from None
        try:
            ranges = {origin: _range(*marks) for origin, marks in read.ranges.items()}
        except (TypeError, ValueError) as error:
            raise BadPosition(f"the range of an origin is none: {error}") from None
        return attrs.evolve(read, ranges=ranges).validate(limits)


def _number(value: Any) -> int:
    if fields.count(value) >> 63:
        raise ValueError(f"{value} is too large")
    return int(value)


def _range(after: Any, upto: Any) -> Range:
    return fields.mark(after), None if upto is None else fields.mark(upto)


def _check_range(origin: str, after: Mark, upto: Mark | None) -> None:
    if not _ORIGIN.fullmatch(origin):
        raise BadPosition(f"{origin[:80]!r} is not the name of an origin")
    if upto is not None and upto < after:
        raise BadPosition(f"the range of {origin} ends at {upto}, before it begins at {after}")
